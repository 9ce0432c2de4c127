function mpc = veil9
% A nine-bus network for demonstrations, written for gridveil (Apache-2.0).
% A coastal and a mountain district joined by two corridors; one tap changer, one phase shifter,
% two parallel lines, a reactor, and a line that is congested when the city draws its full load.
mpc.version = '2';
mpc.baseMVA = 100;

%% bus data
%	bus_i	type	Pd	Qd	Gs	Bs	area	Vm	Va	baseKV	zone	Vmax	Vmin
mpc.bus = [
	1	3	0	0	0	0	1	1	0	220	1	1.06	0.94;
	2	2	18	6	0	0	1	1	0	220	1	1.06	0.94;
	3	1	64	21	0	12	1	1	0	110	1	1.06	0.94;
	4	1	37	11	0	0	1	1	0	110	1	1.06	0.94;
	5	1	52	17	0	0	1	1	0	110	1	1.06	0.94;
	6	2	0	0	0	0	2	1	0	220	1	1.06	0.94;
	7	1	45	14	0.4	-5	2	1	0	220	1	1.06	0.94;
	8	1	29	9	0	0	2	1	0	110	1	1.06	0.94;
	9	1	23	8	0	0	2	1	0	110	1	1.06	0.94;
];

%% generator data
%	bus	Pg	Qg	Qmax	Qmin	Vg	mBase	status	Pmax	Pmin
mpc.gen = [
	1	0	0	120	-80	1	100	1	190	20;
	2	0	0	60	-40	1	100	1	90	0;
	6	0	0	90	-60	1	100	1	140	10;
	8	0	0	30	-20	1	100	1	35	0;
];

%% generator cost data
%	2	startup	shutdown	n	c(n-1)	...	c0
mpc.gencost = [
	2	0	0	3	0.012	24	0;
	2	0	0	3	0.050	41	0;
	2	0	0	3	0.008	17	0;
	2	0	0	2	58	0	0;
];

%% branch data
%	fbus	tbus	r	x	b	rateA	rateB	rateC	ratio	angle	status	angmin	angmax
mpc.branch = [
	1	2	0.010	0.070	0.06	160	160	160	0	0	1	-30	30;
	1	3	0.004	0.060	0	150	150	150	0.98	0	1	-30	30;
	2	4	0.005	0.075	0	120	120	120	1	0	1	-30	30;
	3	4	0.028	0.110	0.02	80	80	80	0	0	1	-30	30;
	3	5	0.024	0.095	0.02	90	90	90	0	0	1	-30	30;
	3	5	0.024	0.095	0.02	90	90	90	0	0	1	-30	30;
	4	5	0.031	0.120	0.02	70	70	70	0	0	1	-30	30;
	2	7	0.012	0.085	0	75	75	75	0	-1.5	1	-30	30;
	6	7	0.008	0.060	0.07	85	85	85	0	0	1	-30	30;
	6	8	0.005	0.080	0	90	90	90	1.01	0	1	-30	30;
	7	9	0.006	0.090	0	80	80	80	1	0	1	-30	30;
	8	9	0.030	0.115	0.02	60	60	60	0	0	1	-30	30;
	5	9	0.045	0.180	0.03	55	55	55	0	0	1	-30	30;
];
