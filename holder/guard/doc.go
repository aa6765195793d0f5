// Package guard asks the local gate before something happens inside a program:
// before a task is handed to another agent of the same process, before a tool
// runs, before a request goes out.
//
// The gate is powerbox serve, whose interface at /access/v1 has the form of the
// OpenID Authorization API 1.0 (AuthZEN). It decides what one agent may have done
// by another by Caps(B) meet Scope(A), and records the attempt, allowed or not;
// what became of it is told with [Gate.Outcome]. The program is the orchestrator
// that the pattern of capability gating means: it says which of its agents tries,
// never the agent itself.
//
// The laws: no answer is a denial; a denial is a [*Refused], which is a
// [powerbox.ErrDenied], and nothing continues after it; a target that a function
// returns is validated before it is returned.
package guard
