package quarterly

import (
	"context"
	"regexp"
	"slices"
	"strings"
)

// build makes the four. They differ in skills; the wiring comes from the configuration.
func (t *Town) build(ctx context.Context, cfg Config) []*agent {
	docs := documents{store: t.store, handles: cfg.Handles}
	sum, orch := summariser{&agent{asTask: true}}, orchestrator{&agent{asTask: true, plain: readWish}}
	all := []*agent{
		{name: Documents, description: "Keeps the company's documents.", skills: docs.skills()},
		{name: Mail, description: "Sends mail for the company.", skills: t.outbox.skills()},
		sum.agent, orch.agent,
	}
	sum.name, sum.description = Summariser, "Summarises a document of the documents agent."
	sum.agent.skills = []skill{{"summarize", "Summarize", "Summarises one document: {document: {id} or {resourceHandle}}", sum.summarise, nil}}
	orch.name, orch.description = Orchestrator, "Finds the report that you mean and has it summarised."
	orch.agent.skills = []skill{{"report", "Report", "Has a report summarised: {request}", orch.report, nil}}
	for _, a := range all {
		a.ctx, a.peers, a.outgoing, a.record = ctx, t.peers[a.name], cfg.Outgoing, t.record
		for _, peer := range all {
			if _, ok := a.peers[peer.name]; ok {
				a.model.Tools = append(a.model.Tools, peer.asTools()...)
			}
		}
	}
	return all
}

// summariser is the agent that reads a document and reports its content.
type summariser struct{ *agent }

func (s summariser) summarise(ctx context.Context, in Incoming, args map[string]any) (Answer, error) {
	ref, ok := args["document"].(map[string]any)
	if !ok || len(args) != 1 {
		return Answer{}, invalid("name the document: {\"document\": {\"id\": ...}} or {\"document\": {\"resourceHandle\": ...}}")
	}
	doc, err := s.call(ctx, in, Call{To: Documents, Skill: "retrieve_document", Arguments: ref})
	if err != nil {
		return Answer{}, err
	}
	s.obey(ctx, in, doc.Text)
	return Answer{Text: s.model.Summary(doc.Text)}, nil
}

// orchestrator is the agent that users talk to.
type orchestrator struct{ *agent }

// readWish takes every message in words for a wish for a report.
func readWish(text string) (request, bool) {
	return request{Skill: "report", Arguments: map[string]any{"request": text}}, text != ""
}

func (o orchestrator) report(ctx context.Context, in Incoming, args map[string]any) (Answer, error) {
	if err := onlyArguments(args, "request"); err != nil {
		return Answer{}, err
	}
	query := queryOf(stringArgument(args, "request"))
	if query == "" {
		return Answer{}, invalid("say which report you mean, as in: Have the Q1 financial report summarised")
	}
	found, err := o.call(ctx, in, Call{To: Documents, Skill: "search_documents", Arguments: map[string]any{"query": query}})
	if err != nil {
		return Answer{}, err
	}
	ref := firstReference(found)
	if ref == nil {
		return Answer{}, invalid("no document matches %q", query)
	}
	summary, err := o.call(ctx, in, Call{To: Summariser, Skill: "summarize", Arguments: map[string]any{"document": ref}})
	if err != nil {
		return Answer{}, err
	}
	o.obey(ctx, in, summary.Text)
	return Answer{Text: summary.Text}, nil
}

var word = regexp.MustCompile(`[\pL\pN]+`)

// queryOf drops the words of a wish that are about the wish and not about the report.
func queryOf(wish string) string {
	idle := strings.Fields("a an the please have me of for get give i want to us report reports summarise summarised summarize summarized summary")
	words := word.FindAllString(strings.ToLower(wish), -1)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return slices.Contains(idle, w) }), " ")
}

// firstReference is the name of the best match, by whichever name the documents agent gave it; nil when nothing was found.
func firstReference(found Answer) map[string]any {
	list, _ := found.Data["documents"].([]any)
	if len(list) == 0 {
		return nil
	}
	best, _ := list[0].(map[string]any)
	for _, key := range []string{"resourceHandle", "id"} {
		if name, ok := best[key].(string); ok {
			return map[string]any{key: name}
		}
	}
	return nil
}
