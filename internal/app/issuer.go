package app

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/policy"
	"github.com/powerbox-project/powerbox/internal/store/keyring"
)

// agents makes the issuer's view of the configured agents, with the keys that it issues under.
// known are the keys that are in use.
func (i *Instance) agents(now func() time.Time, known map[string]*keyring.Issuing) ([]*issuer.Agent, map[string]*keyring.Issuing, error) {
	var added []string
	for _, c := range i.Config.Agents {
		if known[c.ID] == nil {
			added = append(added, c.ID)
		}
	}
	issuing, err := i.Ring.IssuingOf(added, now)
	if err != nil {
		return nil, nil, err
	}
	var out []*issuer.Agent
	for _, c := range i.Config.Agents {
		if issuing[c.ID] == nil {
			issuing[c.ID] = known[c.ID]
		}
		agent, err := i.agent(c, issuing[c.ID])
		if err != nil {
			return nil, nil, err
		}
		out = append(out, agent)
	}
	return out, issuing, nil
}

// agent is the issuer's view of one agent.
func (i *Instance) agent(c config.Agent, keys *keyring.Issuing) (*issuer.Agent, error) {
	agent := &issuer.Agent{ID: c.ID, URL: i.URLOf(&c), Signer: keys.Signer, Accepts: keys.Accepted}
	for _, o := range i.Config.Offers[c.ID] {
		budgets, err := offerBudgets(o)
		if err != nil {
			return nil, fmt.Errorf("offers.%s, %s: %w", c.ID, o.ID, err)
		}
		agent.Grants = append(agent.Grants, issuer.Grant{
			Budgets: budgets,
			ID:      o.ID, Description: o.Description, Operations: o.Operations, Attenuable: o.Attenuable, Legacy: o.Legacy,
			Requires: o.Requires, MaximumLifetime: o.MaximumLifetime, MaximumDepth: o.MaximumDepth,
		})
	}
	for _, s := range i.Config.Skills[c.ID] {
		shape, err := proxy.SkillShape(s)
		if err != nil {
			return nil, fmt.Errorf("skills.%s, skill %q: %w", c.ID, s.Skill, err)
		}
		agent.Skills = append(agent.Skills, issuer.Skill{
			Skill: s.Skill, Grant: s.Grant, Operation: s.Operation, Handle: s.Handle, Write: s.Effect != "read", Shape: shape,
		})
	}
	var err error
	if agent.Resources, err = i.Resources(c.ID); err != nil {
		return nil, err
	}
	if err := checkIDs(agent.Resources, i.Config.Resources[c.ID].Live); err != nil {
		return nil, fmt.Errorf("resources.%s: %w", c.ID, err)
	}
	agent.Live, err = i.liveCollections(c.ID)
	return agent, err
}

// Resources are the resources of the catalogue of an agent.
func (i *Instance) Resources(agent string) ([]catalogue.Item, error) {
	r, ok := i.Config.Resources[agent]
	if !ok || r.File == "" && r.Items == nil {
		return nil, nil
	}
	if r.File != "" {
		data, err := os.ReadFile(string(r.File))
		if err != nil {
			return nil, fmt.Errorf("resources.%s: %w", agent, err)
		}
		return catalogue.Parse(string(r.File), data, agent)
	}
	inline := powerbox.Object(powerbox.Member{Name: "items", Value: powerbox.List(r.Items...)})
	return catalogue.Parse("resources."+agent, inline.AppendJSON(nil), agent)
}

// offerBudgets are the total budgets of a capability of an offer.
func offerBudgets(o config.Offer) (issuer.Budgets, error) {
	b := issuer.Budgets{Uses: o.Uses}
	for field, v := range o.Sum {
		d, ok := v.Decimal()
		if !ok {
			return b, fmt.Errorf("sum.%s is %s; want a number", field, v.Kind())
		}
		if b.Sum == nil {
			b.Sum = map[string]string{}
		}
		b.Sum[field] = d.String()
	}
	return b, nil
}

// Policies loads and checks the Cedar policies.
func (i *Instance) Policies(agents []*issuer.Agent) (*policy.Engine, error) {
	files, err := i.PolicyFiles()
	if err != nil {
		return nil, err
	}
	return i.policiesOf(files, agents)
}

// PolicyFiles are the texts of all policies, by their names.
func (i *Instance) PolicyFiles() (map[string][]byte, error) {
	names, err := config.Files(i.Config.Policies)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	var missing error
	for _, name := range names {
		if files[name], err = os.ReadFile(name); err != nil {
			missing = errors.Join(missing, fmt.Errorf("policies: %w", err))
		}
	}
	if missing != nil {
		return nil, missing
	}
	for _, a := range i.Config.Agents {
		if len(a.Authorization.Roles) > 0 {
			if files["agents, "+a.ID+", authorization.roles"], err = i.rolePolicies(a); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// policiesOf checks policies against the offers and resources of the agents.
func (i *Instance) policiesOf(files map[string][]byte, agents []*issuer.Agent) (*policy.Engine, error) {
	v := policy.Vocabulary{Attributes: map[string]catalogue.Type{}}
	var items []catalogue.Item
	for _, a := range agents {
		items = append(items, a.Resources...)
		for _, o := range i.Config.Offers[a.ID] {
			for _, op := range i.Config.OperationsOf(a.ID, o) {
				v.Operations = append(v.Operations, issuer.Qualify(a.ID, o.ID, op))
			}
		}
	}
	var err error
	if v.Collections, err = catalogue.Collections(items); err != nil {
		return nil, fmt.Errorf("resources: %w", err)
	}
	for _, a := range agents {
		for _, live := range i.Config.Resources[a.ID].Live {
			v.Collections = append(v.Collections, declaredCollection(a.ID, live))
		}
	}
	for _, u := range i.Config.Identity.Dev {
		for name, value := range u.Attributes {
			if t, ok := catalogue.TypeOf(value); ok {
				v.Attributes[name] = t
			}
		}
	}
	return policy.Load(files, v)
}

// rolePolicies are the policies that a table of roles amounts to. One engine decides,
// whether an operator wrote policies or roles (EXT-2).
func (i *Instance) rolePolicies(a config.Agent) ([]byte, error) {
	grants := map[string]config.Offer{}
	for _, o := range i.Config.Offers[a.ID] {
		grants[o.ID] = o
	}
	var text []byte
	for _, role := range slices.Sorted(maps.Keys(a.Authorization.Roles)) {
		for _, what := range a.Authorization.Roles[role] {
			grant, operation, single := strings.Cut(what, "/")
			o, offered := grants[grant]
			if !offered || single && !slices.Contains(i.Config.OperationsOf(a.ID, o), operation) {
				return nil, fmt.Errorf("agents, %s, authorization.roles, %s: %q is no grant of the agent, and no operation of one (grant/operation); grants are %s",
					a.ID, role, what, strings.Join(slices.Sorted(maps.Keys(grants)), ", "))
			}
			action := fmt.Sprintf("action in Action::%q", a.ID+"/"+grant)
			if single {
				action = fmt.Sprintf("action == Action::%q", issuer.Qualify(a.ID, grant, operation))
			}
			text = fmt.Appendf(text, "permit(principal in Role::%q, %s, resource);\n", role, action)
		}
	}
	return text, nil
}

// issuerPolicy lets the issuer ask the policy engine.
type issuerPolicy struct{ engine *policy.Engine }

func (p issuerPolicy) Permits(c identity.Caller, agent, grant, operation string, r *catalogue.Item) issuer.Ruling {
	a := p.engine.Permits(policy.Principal{ID: c.Principal, Groups: c.Groups, Roles: c.Roles, Attributes: c.Attributes},
		issuer.Qualify(agent, grant, operation), r, agent, grant)
	return issuer.Ruling{Allow: a.Allow, Policies: a.Policies, MaximumLifetime: a.MaximumLifetime, Approval: a.Approval}
}

func (p issuerPolicy) Digest() string { return p.engine.Digest() }
