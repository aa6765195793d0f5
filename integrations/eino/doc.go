// Package powerboxeino holds the tools of agents on Eino to their scopes at the gate.
//
// [Middleware] asks the gate before each call of a tool, whether the tool answers once or
// with a stream. A denied call does not run, and the model gets the refusal as its result.
package powerboxeino
