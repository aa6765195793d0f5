package setup

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/powerbox-project/powerbox/internal/cli"
)

// yaml is the configuration of the draft. Comments are for the person who reads it
// next, which a program that writes YAML would not give.
func (d *draft) yaml() string {
	var b strings.Builder
	from := "the card of " + strconv.Quote(d.card.Name)
	switch {
	case len(d.command) > 0:
		from = "the tools of the MCP server that " + strconv.Quote(filepath.Base(d.command[0])) + " starts"
	case d.mcp != "":
		from = "the tools of the MCP server at " + strconv.Quote(d.mcp)
	}
	cli.Printf(&b, "# Written by powerbox init from %s.\n", from)
	b.WriteString("# Lines with \"# guess\" are guesses: look at each. Nothing is enforced while the mode is observe.\n")
	b.WriteString("# All settings: docs/reference/configuration.md\n")
	if d.beside == "" {
		b.WriteString("include: [powerbox.d/*.yaml] # what you add, such as callers and scopes\n")
		b.WriteString("identity:\n  # A built-in user for trying things out; works with serve --dev alone. Replace it by providers.\n")
		cli.Printf(&b, "  dev:\n    - {name: %s, token: %s}\n", bare(d.user), strconv.Quote(d.token))
	}
	d.agents(&b)
	d.offers(&b)
	d.yamlSkills(&b)
	cli.Printf(&b, proposedResources, bare(d.id))
	if d.beside == "" {
		b.WriteString("policies: [policies/*.cedar]\n" + proposedWitness)
	}
	return b.String()
}

// yamlSkills writes the skills. What a server says of its tools stands in comments: a person
// decides what to believe.
func (d *draft) yamlSkills(b *strings.Builder) {
	if slices.ContainsFunc(d.skills, func(s draftSkill) bool { return s.hints.said() != "" }) {
		b.WriteString("# \"The server says\" are annotations of MCP. They are the server's own word: believe them only if you trust it.\n")
	}
	cli.Printf(b, "skills:\n  %s:\n", bare(d.id))
	for _, s := range d.skills {
		cli.Printf(b, "    - {skill: %s, grant: %q, operation: %s, effect: %s} # guess", strconv.Quote(s.id), d.id+":"+s.effect(), strconv.Quote(s.operation), s.effect())
		if said := s.hints.said(); said != "" {
			cli.Printf(b, "; the server says %s", said)
		}
		b.WriteString("\n")
		if advice := s.hints.advice(d.id, s.read); advice != "" {
			cli.Printf(b, "      # %s\n", advice)
		}
	}
}

// agents writes the agent, or the MCP server.
func (d *draft) agents(b *strings.Builder) {
	if len(d.command) > 0 {
		cli.Printf(b, "agents:\n  - id: %s\n    protocol: mcp\n    # A gateway of its own starts the command: powerbox gateway --mcp-exec. The upstream is not called.\n", bare(d.id))
		cli.Printf(b, "    upstream: %s\n    gateway_url: %s\n    mode: observe # then scoped, then require\n", strconv.Quote(noUpstream), strconv.Quote(d.gateway()))
		return
	}
	if d.mcp != "" {
		cli.Printf(b, "agents:\n  - id: %s\n    protocol: mcp\n    upstream: %s\n    mode: observe # then scoped, then require\n", bare(d.id), strconv.Quote(d.mcp))
		return
	}
	cli.Printf(b, "agents:\n  - id: %s\n    upstream: %s\n    mode: observe # then scoped, then require\n", bare(d.id), strconv.Quote(d.agent))
	cli.Printf(b, "    # Operations that a message needs if it names no skill, because it could request anything.\n    required: [%s] # guess\n", strings.Join(d.qualified(nil), ", "))
}

// offers writes a grant for what reads and one for what writes, as far as
// there are skills for it.
func (d *draft) offers(b *strings.Builder) {
	cli.Printf(b, "offers:\n  %s:\n", bare(d.id))
	for _, effect := range []string{"read", "write"} {
		var names []string
		for _, s := range d.skills {
			if s.effect() == effect {
				names = append(names, strconv.Quote(s.operation))
			}
		}
		if len(names) == 0 {
			continue
		}
		cli.Printf(b, "    - {id: %q, description: %s, operations: [%s]} # guess\n", d.id+":"+effect,
			strconv.Quote(map[string]string{"read": "Look, and change nothing", "write": "Change things"}[effect]), strings.Join(names, ", "))
	}
}

// qualified are the operations of the draft as grant/operation.
func (d *draft) qualified(only func(draftSkill) bool) []string {
	var names []string
	for _, s := range d.skills {
		if only == nil || only(s) {
			names = append(names, strconv.Quote(d.id+":"+s.effect()+"/"+s.operation))
		}
	}
	return names
}

// bareName is a name that YAML takes for text without quotes.
var bareName = regexp.MustCompile(`^[a-z][a-z0-9-]{2,}$`)

// bare is a name, in quotes only where YAML could take it for something else:
// a number, or one of its words.
func bare(s string) string {
	if bareName.MatchString(s) && !slices.Contains([]string{"null", "true", "false", "yes", "off"}, s) {
		return s
	}
	return strconv.Quote(s)
}

// cedar permits the built-in user what the draft offers.
func (d *draft) cedar() string {
	var b strings.Builder
	cli.Printf(&b, "// Written by powerbox init. Who may be granted what of agent %s.\n", d.id)
	user, before := d.user, ""
	if user == "" {
		user, before = "alice", "// "
	}
	cli.Printf(&b, "// What no policy permits is refused. Test with: powerbox explain policy --principal user:%s --operation ...\n", user)
	if d.user == "" {
		b.WriteString("// This permits nothing yet: name a user or a group, and remove the slashes.\n")
	}
	for _, effect := range []string{"read", "write"} {
		if len(d.qualified(func(s draftSkill) bool { return s.effect() == effect })) == 0 {
			continue
		}
		cli.Printf(&b, "%[1]spermit(\n%[1]s  principal == User::%[2]q,\n%[1]s  action in Action::%[3]q,\n%[1]s  resource in Agent::%[4]q\n%[1]s);\n",
			before, "user:"+user, d.id+"/"+d.id+":"+effect, d.id)
	}
	return b.String()
}

// proposedResources is written as a comment, with the name of the agent: the resources are not
// known here, and a running server reads no others again.
const proposedResources = `# To grant single resources, name the argument that takes one with handle: NAME, and list them:
# resources:
#   %s: {items: [{collection: reports, id: q1-sales, name: Q1 Sales Report, attributes: {quarter: 2025-Q1}}]}
`

// proposedWitness is written as a comment: another party runs a witness, whose key
// is not known here.
const proposedWitness = `# Without a witness, a restore from an older copy is not noticed, and the last records and revocations are gone.
# Have another party run "powerbox witness", and name it here (docs/how-to/witness.md):
# evidence:
#   witnesses: [{url: "https://witness.example.org", key: "what powerbox witness key prints"}]
`
