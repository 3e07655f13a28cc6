// Package real is a small cluster of real parts on one Linux machine, for tests
// and for people who hack on tunctl: OpenSSH in every flavour of login, Slurm or
// Grid Engine, Jupyter, and faults by name.
//
//	laptop (this process)      switch                  login1 ── lan ── ctl   slurmctld
//	       └────── link ──────── wan ─┬─ login1         │               ├── cn01  slurmd, sshd
//	                                  └─ jump ── dmz ───┘               └── cn02  slurmd, sshd, 2 GPUs
//
// The laptop's side is the machine itself: it has a link to the switch, which
// routes to login1 and jump and to nothing else. A node is one process, its pid 1,
// in namespaces of its own (net, mount, pid, uts, ipc), with an overlay in memory
// on /etc and /var, and /home shared by all. Nothing is written outside the lab's
// own folder, and a node's end removes everything in it. One route stays until the
// machine restarts: it makes the labs' addresses, 10.77.0.0/16, unreachable when no lab
// has them, so that no client dials them through the machine's own network.
//
// The nodes live as long as the keeper, the process that is the switch; the keeper
// lives as long as whoever started the lab, and takes down what is left when they
// are gone, however they went. Names and addresses are the lab's own, so several
// labs can run side by side.
//
// Not real: one kernel for all; control groups that limit nothing, and only with
// Options.Adopt; GPUs that are /dev/null and /dev/zero.
package real
