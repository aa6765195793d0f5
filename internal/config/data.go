package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Data says whether results are labelled, and what the labels do (ADR 149).
type Data struct {
	Mode      string        `key:"mode" default:"off" enum:"off,observe,enforce" doc:"off: no labels. observe: results are labelled, and records say what the rules would refuse. enforce: the rules refuse calls, or have them wait for a person."`
	Keep      time.Duration `key:"keep" default:"24h" doc:"How long a label stays with the callers that it reached, and how long a value that was read may be used."`
	Delegates []string      `key:"delegates" doc:"Callers of identity.callers that hand work to agents and read no results, such as the program in which a user begins a task. A value that such a caller narrows a capability to counts as named by a person, and labels do not reach it through the agents that it hands work to."`
	Writes    string        `key:"writes" default:"ask" enum:"allow,ask,refuse" doc:"What happens after untrusted reading to calls of skills with effect: write whose accepts.untrusted is absent."`
}

// Yields is the label of results.
type Yields struct {
	Trust        string `key:"trust" default:"untrusted" enum:"trusted,untrusted" doc:"trusted: only the operator and the user can write the content of the results. If you are not sure, leave it untrusted."`
	Source       string `key:"source" format:"id" doc:"Name of the source. Default: the id of the agent."`
	Confidential bool   `key:"confidential" doc:"Whether the results may leave only where accepts.confidential allows it."`
}

// Accepts says which data may flow into the calls of a skill.
type Accepts struct {
	Untrusted    string   `key:"untrusted" enum:"allow,ask,refuse" doc:"What happens to a call after its caller has read untrusted data, if one of the deciding arguments is neither named by the root capability nor read as accepts.from says. Default: data.writes for effect: write, otherwise allow."`
	Confidential string   `key:"confidential" default:"allow" enum:"allow,ask,refuse" doc:"What happens to a call after its caller has read confidential data, if the root capability does not name the value of every argument."`
	Deciding     []string `key:"deciding" doc:"Arguments that accepts.untrusted looks at. A call that leaves one out is treated as if its value came from untrusted data. Absent: all arguments of the call."`
	From         []From   `key:"from" doc:"Where the values of arguments must come from. An argument may be named several times."`
	Otherwise    string   `key:"otherwise" default:"refuse" enum:"ask,refuse" doc:"What happens to a call whose argument has a value that accepts.from does not admit."`
}

// From says that an argument may hold what results of an operation hold at a path.
type From struct {
	Argument  string `key:"argument" required:"true" doc:"Argument of the skill."`
	Operation string `key:"operation" required:"true" doc:"Operation whose result has the value, as agent/grant/operation. Its skill must have yields.trust: trusted."`
	Path      string `key:"path" doc:"Place in the result: a JSON pointer, in which * is every element of an array, such as /entries/*/iban. Absent: the whole result."`
}

// checkData wants rules that can be kept.
func (k checker) checkData() {
	if k.Config.Data.Keep < time.Minute {
		k.place("data.keep", "%s is less than a minute", k.Config.Data.Keep)
	}
	for i, caller := range k.Config.Data.Delegates {
		k.known(fmt.Sprintf("data.delegates[%d]", i), "caller", caller, k.callers())
	}
	k.provided()
	for _, agent := range slices.Sorted(maps.Keys(k.Skills)) {
		skills := k.Skills[agent]
		for i, s := range skills {
			at := fmt.Sprintf("skills.%s[%d].accepts", agent, i)
			k.accepts(at, s)
			same := func(o Skill) bool { return o.Grant == s.Grant && o.Operation == s.Operation }
			if first := skills[slices.IndexFunc(skills, same)]; !reflect.DeepEqual(first.Accepts, s.Accepts) || (first.Effect == "write") != (s.Effect == "write") && k.Config.Data.Mode != "off" {
				k.place(at, "differs, or effect does, from skill %q, which is the same operation; want the same, or an operation of its own", first.Skill)
			}
		}
	}
}

// provided wants rules of capabilities of Agent Auth that can be kept, and that are those of
// the skills of the same operation.
func (k checker) provided() {
	for n, a := range k.Agents {
		for i, c := range a.AgentAuth.Capabilities {
			at := fmt.Sprintf("agents[%d].agent_auth.capabilities[%d].accepts", n, i)
			s := Skill{Accepts: c.Accepts}
			if properties, ok := c.Input.Get("properties"); ok {
				s.Arguments = map[string]Constraint{}
				members, _ := properties.Members()
				for _, m := range members {
					s.Arguments[m.Name] = Constraint{}
				}
			}
			k.accepts(at, s)
			if c.Location != "" && !k.noRule(c.Accepts) {
				k.place(at, "the capability is executed at %s, where nothing would enforce this", c.Location)
			}
			for _, o := range k.Skills[a.ID] {
				if o.Grant == GrantOfAgentAuth && o.Operation == c.Name && !reflect.DeepEqual(o.Accepts, c.Accepts) {
					k.place(at, "differs from that of skill %q, which is the same operation", o.Skill)
				}
			}
		}
	}
}

func (checker) noRule(a Accepts) bool {
	return reflect.DeepEqual(a, Accepts{Confidential: "allow", Otherwise: "refuse"})
}

func (k checker) accepts(at string, s Skill) {
	if k.noRule(s.Accepts) {
		return
	}
	for n, name := range s.Accepts.Deciding {
		k.argument(fmt.Sprintf("%s.deciding[%d]", at, n), s, name)
	}
	for n, from := range s.Accepts.From {
		here := fmt.Sprintf("%s.from[%d]", at, n)
		k.argument(here+".argument", s, from.Argument)
		if from.Path != "" && !strings.HasPrefix(from.Path, "/") {
			k.place(here+".path", "%q is no JSON pointer; want /name/name, or * for every element of an array", from.Path)
		}
		k.trusted(here+".operation", from.Operation)
	}
}

// argument reports a name that no argument of a skill has, where those are declared.
func (k checker) argument(at string, s Skill, name string) {
	if _, ok := s.Arguments[name]; s.Arguments != nil && !ok {
		k.place(at, "%q is not among the arguments of the skill%s", name, didYouMean(name, slices.Collect(maps.Keys(s.Arguments))))
	}
}

// trusted reports an operation whose results cannot vouch for anything.
func (k checker) trusted(at, operation string) {
	agent, name, _ := strings.Cut(operation, "/")
	var found bool
	if slices.ContainsFunc(k.Agents, func(a Agent) bool { return a.ID == agent && a.Protocol == "local" }) {
		k.place(at, "agent %q is local: its results stay in its program, so no value of them can be read here; want an operation of an agent behind a gateway", agent)
		return
	}
	yields := func(kind, of string, y Yields) {
		if found = true; y.Trust != "trusted" {
			k.place(at, "%s %q of the operation yields untrusted results, which vouch for nothing; want yields.trust: trusted, if that is true", kind, of)
		}
	}
	for _, s := range k.Skills[agent] {
		if s.Grant+"/"+s.Operation == name {
			yields("skill", s.Skill, s.Yields)
		}
	}
	for _, a := range k.Agents {
		for _, c := range a.AgentAuth.Capabilities {
			if a.ID == agent && GrantOfAgentAuth+"/"+c.Name == name {
				yields("capability", c.Name, c.Yields)
			}
		}
	}
	if !found {
		k.place(at, "no skill is operation %q; want agent/grant/operation of a skill, or agent/%s/name of a capability of Agent Auth", operation, GrantOfAgentAuth)
	}
}
