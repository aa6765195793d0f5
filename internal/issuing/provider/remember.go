package provider

import "slices"

// remembering reads every host and agent once, however many questions are about it: all
// requests of one agent would otherwise cost its grants again for each.
type remembering struct {
	Reader
	hosts  map[string]Host
	agents map[string]Agent
	under  map[string][]Agent
	grants map[string][]Grant
}

func remember(r Reader) *remembering {
	return &remembering{r, map[string]Host{}, map[string]Agent{}, map[string][]Agent{}, map[string][]Grant{}}
}

// once reads a value where it is not known yet. Errors are not kept.
func once[T any](known map[string]T, id string, read func(string) (T, error)) (T, error) {
	if v, ok := known[id]; ok {
		return v, nil
	}
	v, err := read(id)
	if err == nil {
		known[id] = v
	}
	return v, err
}

// Host implements [Reader].
func (r *remembering) Host(id string) (Host, error) { return once(r.hosts, id, r.Reader.Host) }

// HostAgent implements [Reader].
func (r *remembering) HostAgent(id string) (Agent, error) {
	return once(r.agents, id, r.Reader.HostAgent)
}

// HostAgents implements [Reader]. Callers change what they get.
func (r *remembering) HostAgents(host string) ([]Agent, error) {
	all, err := once(r.under, host, r.Reader.HostAgents)
	return slices.Clone(all), err
}

// Grants implements [Reader]. Callers change what they get.
func (r *remembering) Grants(agent string) ([]Grant, error) {
	all, err := once(r.grants, agent, r.Reader.Grants)
	return slices.Clone(all), err
}
