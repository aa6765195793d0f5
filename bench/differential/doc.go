// Command differential looks for requests that the gateway reads in another way
// than the agent behind it.
//
//	cd bench && go run ./differential [-cases 1000000] [-seed 1] [-bindings jsonrpc/go,...] [-out DIR]
//	cd bench && go run ./differential -replay FILE
//
// It starts the built powerbox in mode require in front of servers on the stock
// SDKs (a2a-go, @a2a-js/sdk, the MCP Go SDK and @modelcontextprotocol/sdk), and
// sends them requests that it makes out of the files in corpus by mutation. Each
// handler reports what the SDK handed it: skills with their arguments, task,
// context, tenant, and whether there were words. That must be what the decision
// record says, or nothing must have reached the handler. Anything else is a
// difference; it is printed, and its request is written to a file in -out with
// its exact bytes, which -replay sends again.
//
// A case is a function of -seed, the binding and its number. The harness knows
// nothing of the gateway's code: it has the program, the header Powerbox-Context
// that agents get, and the records.
//
// What the harness cannot see: an agent that looks for a skill in other places than
// the parts of a message, and a number that no double holds. The SDKs hand on the
// double next to it; such cases are counted as rounded and compared as doubles.
package main
