function mpc = veil2
% Two buses and one load: the smallest network that can be released, written for gridveil (Apache-2.0).
mpc.version = '2';
mpc.baseMVA = 100;
mpc.bus = [
	1	3	0	0	0	0	1	1	0	110	1	1.1	0.9;
	2	1	60	20	0	0	1	1	0	110	1	1.1	0.9;
];
mpc.gen = [
	1	0	0	150	-150	1	100	1	200	0;
	2	0	0	80	-80	1	100	1	50	0;
];
mpc.gencost = [
	2	0	0	3	0.02	20	0;
	2	0	0	3	0.05	45	0;
];
mpc.branch = [
	1	2	0.02	0.08	0.02	110	110	110	0	0	1	-30	30;
];
