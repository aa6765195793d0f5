// Package reliability breaks an installation of the built program on purpose, under
// load, and counts acknowledged results that are gone.
//
// A [Town] is a PostgreSQL primary with a synchronous standby, nodes of `powerbox
// serve` on it behind a balancer, remote gateways behind another, and an agent behind
// them. Callers ask for capabilities, use, narrow and give them back, and agents
// register; each keeps what it was answered. A trial does one thing to the town
// ([Trials]), lets it recover, and then judges:
//
//   - lost: a decision, a capability, a revocation or a registration that someone was
//     told of, and that the town does not know;
//   - wrong allow: a call that went through though its capability had been taken back
//     for longer than the lease, or never held it;
//   - wrong deny: a call that was denied though it stood on something that held, with
//     any other reason than that of a part that was away;
//   - the evidence: every chain and the log verify, and the log continues from the
//     checkpoint of the judgement before.
//
// An oracle holds every answer, its outcome and its code, against the exported evidence.
// [Faults] are trials of one node on a file.
//
// It knows the program from outside: it starts it, calls it, and ends it.
package reliability
