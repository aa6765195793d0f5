// Package guardgrpc asks the local gate about calls of gRPC, as package guard does
// about requests of HTTP: before a server's method gets one, and before a client's
// goes out. It is apart so that programs without gRPC do not link it.
//
// What a call is, is worked out from its method and message ([Attempt]). A call
// with one message of the client is one attempt. One with many is an attempt at its
// opening, with no message, and one for every message: each has its effect when it
// comes, and is decided with its own arguments.
//
// The laws are those of package guard: no answer is a denial, and a refused call
// reaches no method and leaves no client. A denial is PERMISSION_DENIED with a
// google.rpc.ErrorInfo that has code, missing set, decision and whether it is worth
// trying again; in Go it is a [*guard.Refused]. Where the gate does not answer it is
// UNAVAILABLE.
package guardgrpc
