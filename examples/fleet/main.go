// Command fleet writes the cards and the declarations of a company of 200 agents:
// an assistant, ten departments of nineteen, and nine services that all of them use.
// It is the same company every time, and some of it is not as it should be, as in
// every company. docs/how-to/graph.md shows what powerbox says of it.
//
//	go run ./examples/fleet DIR
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("want a folder to write to")
	}
	f := company()
	if err := os.MkdirAll(args[0], 0o750); err != nil { //nolint:gosec // the folder that the user names
		return err
	}
	folder, err := os.OpenRoot(args[0])
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	if err := folder.MkdirAll("cards", 0o750); err != nil {
		return err
	}
	for _, a := range f.agents {
		card, err := json.MarshalIndent(a.card(), "", "  ")
		if err != nil {
			return err
		}
		if err := folder.WriteFile(filepath.Join("cards", a.id+".json"), append(card, '\n'), 0o600); err != nil {
			return err
		}
	}
	return folder.WriteFile("delegation.yaml", []byte(f.declarations()), 0o600)
}

// The parts of the company.
var (
	departments = []string{"facilities", "finance", "hr", "it", "legal", "logistics", "marketing", "research", "sales", "support"}
	leads       = []string{"planner", "reviewer", "writer"}
	// workers are five for each lead; services are what the rest uses, with what can
	// be asked of each.
	workers = map[string][]string{
		"planner":  {"calendar", "budget", "staffing", "risk", "purchase"},
		"reviewer": {"audit", "policy", "quality", "contract", "privacy"},
		"writer":   {"summary", "letter", "report", "slides", "news"},
	}
	services = map[string][]string{
		"archive": {"archive.read", "archive.store"}, "calendar": {"calendar.book", "calendar.read"}, "directory": {"directory.read"},
		"files": {"files.delete", "files.read", "files.write"}, "ledger": {"ledger.post", "ledger.read"}, "mail": {"mail.read", "mail.send"},
		"payments": {"payments.pay", "payments.read"}, "search": {"search.query"}, "translate": {"translate.text"},
	}
	// uses is which operation of which service a worker needs for its work.
	uses = map[string][]string{
		"calendar": {"calendar.book"}, "budget": {"ledger.read"}, "staffing": {"directory.read"}, "risk": {"search.query"}, "purchase": {"payments.read"},
		"audit": {"ledger.read", "archive.read"}, "policy": {"files.read"}, "quality": {"search.query"}, "contract": {"files.read"}, "privacy": {"directory.read"},
		"summary": {"files.read"}, "letter": {"mail.send"}, "report": {"files.write", "ledger.read"}, "slides": {"files.write"}, "news": {"search.query", "translate.text"},
	}
)

// fleet is the agents with who hands what to whom.
type fleet struct {
	agents []agent
	wires  []wire
	scopes map[string]map[string][]string
}

type agent struct {
	id, says string
	does     []string // operations, which are the ids of its skills
	old      bool     // it speaks A2A 0.3 alone
	forgets  bool     // it does not continue a context that others began
	streams  bool
}

type wire struct {
	from, to string
	requires []string
}

// hands adds a wire with the scope that lets it pass.
func (f *fleet) hands(from, to string, operations ...string) {
	f.wires = append(f.wires, wire{from, to, operations})
	if f.scopes[from] == nil {
		f.scopes[from] = map[string][]string{}
	}
	have := append(f.scopes[from][to], operations...)
	slices.Sort(have)
	f.scopes[from][to] = slices.Compact(have)
}

func company() *fleet {
	f := &fleet{scopes: map[string]map[string][]string{}}
	f.agents = append(f.agents, agent{id: "assistant", says: "Talks to the people of the company.", does: []string{"assistant.ask"}, streams: true})
	for _, d := range departments {
		desk := d + "-desk"
		f.agents = append(f.agents, agent{id: desk, says: "Takes what " + d + " is asked for.", does: []string{d + ".intake"}, streams: true})
		f.hands("assistant", desk, d+".intake")
		for _, l := range leads {
			lead := d + "-" + l
			f.agents = append(f.agents, agent{id: lead, says: "The " + l + " of " + d + ".", does: []string{d + "." + l}, streams: true})
			f.hands(desk, lead, d+"."+l)
			for _, w := range workers[l] {
				id := d + "-" + w
				f.agents = append(f.agents, agent{id: id, says: "Does " + w + " work for " + d + ".", does: []string{d + "." + w}})
				f.hands(lead, id, d+"."+w)
				for _, op := range uses[w] {
					service, _, _ := strings.Cut(op, ".")
					f.hands(id, service, op)
				}
			}
		}
	}
	for _, s := range slices.Sorted(maps.Keys(services)) {
		f.agents = append(f.agents, agent{id: s, says: "The " + s + " of the company.", does: services[s]})
	}
	f.flaws()
	return f
}

// flaws adds mistakes to the fleet, for the report to find.
func (f *fleet) flaws() {
	// Purchasing was to pay alone; no declaration ever allowed that.
	f.wires = append(f.wires, wire{"finance-purchase", "payments", []string{"payments.pay"}})
	// Someone gave a writer all files, to be done with it.
	f.scopes["marketing-slides"]["files"] = []string{"files.*"}
	// Two who ask each other.
	f.hands("legal-contract", "legal-reviewer", "legal.reviewer")
	// A scope for what its target cannot do any more.
	f.scopes["hr-letter"]["mail"] = []string{"mail.send", "mail.send_bulk"}
	for i := range f.agents {
		switch f.agents[i].id {
		case "support-writer":
			f.agents[i].forgets = true
		case "archive":
			f.agents[i].old = true
		}
	}
}

// card is what the agent says of itself.
func (a agent) card() map[string]any {
	version := "1.0"
	if a.old {
		version = "0.3"
	}
	skills := []any{}
	for _, op := range a.does {
		skills = append(skills, map[string]any{"id": op, "name": op, "description": "Does " + op + ".", "tags": []string{strings.SplitN(op, ".", 2)[0]}})
	}
	capabilities := map[string]any{"streaming": a.streams, "context_reuse": !a.forgets}
	if a.streams {
		capabilities["streaming_message"] = true
	}
	return map[string]any{
		"name": a.id, "description": a.says, "version": "1.0.0",
		"supportedInterfaces": []any{map[string]any{"url": "https://" + a.id + ".agents.example.com/a2a", "protocolBinding": "JSONRPC", "protocolVersion": version}},
		"capabilities":        capabilities, "defaultInputModes": []string{"text/plain"}, "defaultOutputModes": []string{"text/plain"}, "skills": skills,
	}
}

// declarations is the file that stands in version control.
func (f *fleet) declarations() string {
	var b strings.Builder
	b.WriteString("version: 1\nagents:\n")
	for _, a := range f.agents {
		fmt.Fprintf(&b, "  %s:\n    card: cards/%s.json\n    skills:\n", a.id, a.id)
		for _, op := range a.does {
			fmt.Fprintf(&b, "      %s: %s\n", op, op)
		}
	}
	b.WriteString("scopes:\n")
	for _, a := range f.agents {
		if len(f.scopes[a.id]) == 0 {
			continue
		}
		fmt.Fprintf(&b, "  %s:\n", a.id)
		for _, to := range f.agents {
			if ops := f.scopes[a.id][to.id]; ops != nil {
				fmt.Fprintf(&b, "    %s: [%s]\n", to.id, strings.Join(ops, ", "))
			}
		}
	}
	b.WriteString("wiring:\n")
	for _, w := range f.wires {
		fmt.Fprintf(&b, "  - {from: %s, to: %s, requires: [%s], gate: gateway}\n", w.from, w.to, strings.Join(w.requires, ", "))
	}
	return b.String()
}
