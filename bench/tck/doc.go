// Command tck has the A2A Technology Compatibility Kit try one agent directly
// and through Powerbox, and lists every test whose result differs. There is none
// where the gateway is transparent.
//
//	cd bench && go run ./tck [-python python3] [-modes observe,require] [-agent go] KIT
//
// KIT is the path of a checkout of github.com/a2aproject/a2a-tck, branch
// 1.0-dev, which Python can run: python -m pytest tests/compatibility in there.
// The kit is no part of this repository, and nothing is written into it.
//
// Mode observe is tried at the agent's URL at the gateway. In mode require every
// call needs a capability and a proof. The kit knows neither, so powerbox attach
// stands between and adds both. The agent is first tried twice directly, to find
// the tests whose results differ without a gateway.
package main
