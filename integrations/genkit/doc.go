// Package powerboxgenkit holds the tools of a Genkit program to the scopes of its agents
// at the gate.
//
// A tool that [DefineTool] defines asks the gate before its function runs. Genkit has no
// agents: the context of a generation says which agent it is for, with [As].
package powerboxgenkit
