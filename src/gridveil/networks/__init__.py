"""Power and gas cases as typed arrays, and the program O(d) of each."""
