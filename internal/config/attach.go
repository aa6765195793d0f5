package config

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
)

// Attach is the whole configuration of powerbox attach, a file of its own: it
// stands beside an agent and not beside the server. The tags are those of
// [Config]; docs/how-to/attach.md has every key.
type Attach struct {
	Key          Path          `key:"key" doc:"File with the agent's key, of mode 0600: from powerbox keys new."`
	Listen       string        `key:"listen" default:"127.0.0.1:8790" format:"address" doc:"Loopback address for the agent's own calls, host:port."`
	Socket       Path          `key:"socket" doc:"Unix socket to create for /v1/request, /v1/derive and /v1/present. Absent: no socket."`
	SecretFile   Path          `key:"secret_file" doc:"File to write a secret of this run to, which every client must then show. Absent: no secret."`
	SessionFile  Path          `key:"session_file" doc:"File with the user's access token, read again for every request. Absent: attach can request no capabilities."`
	Capabilities []Path        `key:"capabilities" doc:"Capability files, as powerbox request writes them."`
	Agents       []AttachAgent `key:"agents" doc:"The protected agents that can be called."`
	Plans        []Plan        `key:"plans" doc:"Paths of delegations that begin at this agent: the first hop names no from. attach refuses a call along a plan while the path does not hold (docs/reference/cards.md)."`
	Inbound      AttachInbound `key:"inbound" doc:"The side on which the agent's own calls come in."`
}

// AttachAgent is one protected agent that calls may go to.
type AttachAgent struct {
	Name         string          `key:"name" required:"true" format:"id" doc:"Name of the agent here: clients reach it at /agents/NAME."`
	Card         string          `key:"card" required:"true" format:"url" doc:"URL of its card, or the part before /.well-known/agent-card.json."`
	GRPC         string          `key:"grpc" format:"address" doc:"Loopback address for its gRPC, host:port. Absent: its card offers no gRPC."`
	GRPCUpstream string          `key:"grpc_upstream" format:"url" doc:"URL of its gRPC instead of the address on its card."`
	Request      []AttachRequest `key:"request" doc:"Capabilities to request if no held one permits a call. The first matching entry is used."`
	Hand         []AttachHand    `key:"hand" doc:"Capabilities to delegate with a message to the agent."`
	Floor        []string        `key:"floor" doc:"Skills that may be called for no known task, or \"*\". The default is nothing."`
}

// AttachRequest is one rule by which capabilities are asked for.
type AttachRequest struct {
	Skills     []string       `key:"skills" doc:"Skills that the entry is for. Absent: every call."`
	Grants     []string       `key:"grants" doc:"Grants to request. Absent: those of the skills."`
	Operations []string       `key:"operations" doc:"Operations of the grants. Absent: all."`
	Purpose    string         `key:"purpose" required:"true" doc:"Purpose of the request, which is recorded."`
	Query      powerbox.Value `key:"query" doc:"Resource query: {collection, filter}."`
	Lifetime   time.Duration  `key:"lifetime" doc:"Lifetime to request. Absent: the longest that the issuer allows."`
	Push       bool           `key:"push" doc:"Whether to request push notifications too."`
	Card       bool           `key:"card" doc:"Whether to request the agent's extended card too."`
	Tasks      bool           `key:"tasks" doc:"Whether to request it for inbound tasks too. Callers of the agent then have, through it, the authority of the session's user."`
}

// AttachHand is a capability that is delegated with a message.
type AttachHand struct {
	Of       string        `key:"of" required:"true" doc:"Name of the agent that has the skills."`
	Skills   []string      `key:"skills" required:"true" doc:"Skills that the recipient may call, with the handles that the message names."`
	Lifetime time.Duration `key:"lifetime" doc:"Lifetime of the delegated capability. Absent: that of the capability it is derived from."`
	Depth    int           `key:"depth" default:"0" min:"0" max:"16" doc:"How often the recipient may pass it on."`
}

// AttachInbound is the side on which the agent's own calls come in.
type AttachInbound struct {
	Listen  string `key:"listen" format:"address" doc:"Address that the agent's gateway reaches, host:port. Absent: no inbound side."`
	URL     string `key:"url" format:"url" doc:"That address as a URL, if it differs from http://LISTEN."`
	Forward string `key:"forward" format:"url" doc:"URL of the agent's own card, or the part before /.well-known/agent-card.json."`
	Agent   string `key:"agent" format:"url" doc:"Public URL of the agent at its gateway, the issuer of contexts."`
	ID      string `key:"id" format:"id" doc:"Its id there, the audience of contexts. Absent: the last part of agent."`
}

// AttachTable returns the table of all settings, for docs/how-to/attach.md.
func AttachTable() []byte {
	return table(reflect.TypeFor[Attach]())
}

// LoadAttach reads the file of powerbox attach, as [Load] reads powerbox.yaml
// but without includes and environment.
func LoadAttach(path string, read func(string) ([]byte, error)) (*Attach, error) {
	c := new(Attach)
	if err := loadFile(path, read, c); err != nil {
		return nil, err
	}
	return c, nil
}

// check reports what settings say about each other.
func (c *Attach) check(d *decoder) {
	var names []string
	for i, a := range c.Agents {
		at := fmt.Sprintf("agents[%d]", i)
		if slices.Contains(names, a.Name) {
			d.place(at+".name", "%q is used twice", a.Name)
		}
		names = append(names, a.Name)
		if a.GRPC != "" && !loopbackAddress(a.GRPC) {
			d.place(at+".grpc", "is %q; want a loopback address: every program that reaches it acts as the agent", a.GRPC)
		}
	}
	for i, a := range c.Agents {
		for k, h := range a.Hand {
			if !slices.Contains(names, h.Of) || h.Of == a.Name {
				d.place(fmt.Sprintf("agents[%d].hand[%d].of", i, k), "%q is no other agent here%s", h.Of, didYouMean(h.Of, names))
			}
		}
	}
	c.checkPlans(d, names)
	if !loopbackAddress(c.Listen) {
		d.place("listen", "is %q; want a loopback address: every program that reaches it acts as the agent", c.Listen)
	}
	c.Inbound.check(d)
}

// checkPlans wants plans that begin at the agent beside and lead to agents here.
func (c *Attach) checkPlans(d *decoder, names []string) {
	for i, p := range c.Plans {
		at := fmt.Sprintf("plans[%d]", i)
		if len(p.Hops) > 0 && p.Hops[0].From != "" {
			d.place(at+".hops[0].from", "is %q; leave it out: the path begins at the agent that attach stands beside", p.Hops[0].From)
		}
		for n, h := range p.Hops {
			if !slices.Contains(names, h.To) {
				d.place(fmt.Sprintf("%s.hops[%d].to", at, n), "%q is no agent here%s", h.To, didYouMean(h.To, names))
			}
		}
		if _, err := p.declared(); err != nil {
			d.place(at, "%v", err)
		}
	}
}

func (in *AttachInbound) check(d *decoder) {
	if *in == (AttachInbound{}) {
		return
	}
	for name, value := range map[string]string{"listen": in.Listen, "forward": in.Forward, "agent": in.Agent} {
		if value == "" {
			d.place("inbound", "%s is missing", name)
		}
	}
	if in.URL == "" {
		in.URL = "http://" + in.Listen
	}
	if in.ID == "" {
		in.ID = in.Agent[strings.LastIndexByte(in.Agent, '/')+1:]
	}
}

func loopbackAddress(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
