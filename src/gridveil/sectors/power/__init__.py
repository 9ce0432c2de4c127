"""Power networks: files, arrays, optimal power flow and its relaxation."""
