package setup

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/powerbox-project/powerbox/internal/cli"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/outbound"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
)

// draft is a configuration in the making.
type draft struct {
	agent, id, out, user string
	mcp                  string   // endpoint, where it is an MCP server
	command              []string // that the MCP server is started by, instead
	env                  []string // names of variables that it gets
	base                 string   // issuer.url of the configuration that is there
	gateways             []string // URLs of the gateways that it has
	beside               string   // file of its own for the agent, beside the configuration that is there
	card                 a2a.CardView
	skills               []draftSkill
	token                string // of the built-in user
}

// draftSkill is a skill with what its name suggests.
type draftSkill struct {
	id, operation string
	read          bool
	hints         toolHints // of a tool
}

func (s draftSkill) effect() string { return map[bool]string{true: "read", false: "write"}[s.read] }

func newInit(p *cli.Program) *cobra.Command {
	var d draft
	var force, add bool
	cmd := &cobra.Command{
		Use:   "init --agent URL | --mcp URL | --mcp -- COMMAND [ARGUMENTS] [--add]",
		Short: "Write a powerbox.yaml for an agent or an MCP server",
		Long: "Init guesses from the card which operation each skill is, and whether it changes anything. Every guess is marked in\n" +
			"the file. The mode is observe: nothing is enforced yet. With --add the agent joins an existing configuration: it gets a\n" +
			"file of its own in powerbox.d, and nothing else changes.\n" +
			"\n" +
			"If the MCP server is a command, init starts it once, asks for its tools, and ends it. The command gets PATH, HOME,\n" +
			"USER, LANG, LC_ALL, TZ, TMPDIR and the environment variables that --mcp-env names.",
		Example: "  powerbox init --agent http://127.0.0.1:9001\n" +
			"  powerbox init --agent http://127.0.0.1:9002 --id mailer --add\n" +
			"  powerbox init --id files --mcp -- npx -y @modelcontextprotocol/server-filesystem /srv/files",
	}
	cmd.Args = cobra.ArbitraryArgs // those of the command
	f := cmd.Flags()
	f.StringVar(&d.agent, "agent", "", "`URL` of the agent, as its clients use it")
	f.StringVar(&d.mcp, "mcp", "", "`URL` of the endpoint of an MCP server, instead of an agent; or its command behind --")
	f.Lookup("mcp").NoOptDefVal = mcpBehind
	f.StringSliceVar(&d.env, "mcp-env", nil, "`name` of an environment variable that the command gets; may be repeated")
	f.StringVar(&d.id, "id", "", "name of the agent in the configuration; default: made from its card")
	f.StringVar(&d.out, "out", cli.DefaultConfig, "`file` to write, or to extend with --add; policies are written beside it")
	f.BoolVar(&add, "add", false, "add the agent to the existing configuration")
	f.StringVar(&d.user, "user", "dev", "name of a built-in user for trying things out")
	f.BoolVar(&force, "force", false, "overwrite existing files")
	cmd.MarkFlagsMutuallyExclusive("agent", "mcp")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := d.server(args, cmd.ArgsLenAtDash()); err != nil {
			return err
		}
		if err := d.read(cmd.Context(), p); err != nil {
			return err
		}
		if add {
			return addAgent(p, d, force, cmd.Flags().Changed("user"))
		}
		files, err := d.files(rand.Reader)
		if err != nil {
			return err
		}
		if err := d.loads(); err != nil {
			return err
		}
		if err := writeFiles(p, files, force); err != nil {
			return err
		}
		return printDraft(p, d, files)
	}
	return cmd
}

// read fetches the card and guesses.
func (d *draft) read(ctx context.Context, p *cli.Program) error {
	d.agent = strings.TrimRight(d.agent, "/")
	policy := outbound.Configured()
	policy.MaxBytes = a2a.MaxCardBytes
	client := outbound.New(policy)
	switch {
	case len(d.command) > 0:
		return d.readCommand(ctx, p)
	case d.mcp != "":
		return d.readMCP(ctx, client.Transport())
	}
	raw, _, err := client.Get(ctx, d.agent+"/.well-known/agent-card.json", "application/json")
	if err != nil {
		return fmt.Errorf("%w\nthe card was not read. Start the agent, or correct --agent: the URL that its clients use, without .well-known/agent-card.json. For an MCP server: powerbox init --mcp %s", err, d.agent)
	}
	if d.card, err = a2a.ReadCard(raw); err != nil {
		return fmt.Errorf("the card of %s: %w", d.agent, err)
	}
	if !d.card.Protectable() {
		return fmt.Errorf("the card of %s: %w", d.agent, a2a.ErrNoInterface)
	}
	if d.id == "" {
		d.id = nameOf(d.card.Name)
	}
	if len(d.card.Skills) == 0 {
		return fmt.Errorf("the card of %s has no skills, so there is nothing that could be granted", d.agent)
	}
	d.guess()
	return nil
}

// guess makes an operation of every skill. Two skills are never the same
// operation, whatever their names have in common.
func (d *draft) guess() {
	taken := map[string]bool{}
	var skills []string
	for _, skill := range d.card.Skills {
		if slices.Contains(skills, skill) {
			continue // a card that lists a skill twice has one of that name
		}
		skills = append(skills, skill)
		name := operationOf(skill)
		for n := 2; taken[name]; n++ {
			name = fmt.Sprintf("%s_%d", operationOf(skill), n)
		}
		taken[name] = true
		d.skills = append(d.skills, draftSkill{id: skill, operation: name, read: reads(skill)})
	}
}

// nameOf makes a name of the configuration from that of a card.
func nameOf(card string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, card)
	name = strings.Trim(name[:min(len(name), 64)], "-")
	if name == "" {
		return "agent"
	}
	return name
}

// maxGuess leaves room for a number behind the name of an operation.
const maxGuess = 100

// operationOf makes the name of an operation from that of a skill.
func operationOf(skill string) string {
	name := strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || strings.ContainsRune(`/*"\`, r) {
			return '_'
		}
		return r
	}, skill)
	name = name[:min(len(name), maxGuess)]
	if name == "" || strings.HasPrefix(name, "a2a.") {
		return "skill_" + strings.TrimPrefix(name, "a2a.")
	}
	return name
}

// readVerbs are words in the names of skills that change nothing. Whatever has
// none of them is taken to write.
var readVerbs = []string{
	"answer", "browse", "check", "compare", "count", "describe", "explain", "fetch", "find", "get", "hello", "inspect", "list", "lookup",
	"query", "read", "retrieve", "search", "show", "status", "summarise", "summarize", "translate", "validate", "view",
}

// writeVerbs are stronger: read_and_delete writes.
var writeVerbs = []string{
	"add", "approve", "archive", "book", "buy", "cancel", "change", "create", "delete", "drop", "edit", "insert", "mail", "move", "order",
	"pay", "post", "publish", "put", "remove", "save", "send", "set", "store", "transfer", "update", "upload", "write",
}

func reads(skill string) bool { return hasVerb(skill, readVerbs) && !writes(skill) }

func writes(skill string) bool { return hasVerb(skill, writeVerbs) }

// hasVerb reports whether a name has one of the words in it.
func hasVerb(skill string, verbs []string) bool {
	words := strings.FieldsFunc(strings.ToLower(skill), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(verbs, w) })
}

// draftFile is one file to write.
type draftFile struct {
	name string
	mode os.FileMode
	text string
}

// files are all files of the draft. What holds the built-in user's token is
// for its owner alone.
func (d *draft) files(random io.Reader) ([]draftFile, error) {
	secret := make([]byte, 24)
	if _, err := io.ReadFull(random, secret); err != nil {
		return nil, err
	}
	d.token = base64.RawURLEncoding.EncodeToString(secret)
	dir := filepath.Dir(d.out)
	return []draftFile{
		{d.out, 0o600, d.yaml()},
		{filepath.Join(dir, "policies", d.id+".cedar"), 0o644, d.cedar()},
		{filepath.Join(dir, d.user+".session"), 0o600, d.token + "\n"},
	}, nil
}

// loads checks that the configuration would load, with what it includes that is there
// already, before anything is written.
func (d *draft) loads() error {
	text := d.yaml()
	read := func(name string) ([]byte, error) {
		if name == d.out {
			return []byte(text), nil
		}
		return os.ReadFile(name)
	}
	if _, err := config.Load(d.out, read, nil); err != nil {
		return cli.Usage(fmt.Errorf("with this --id and --user, and what is in powerbox.d, the configuration would not load: %w", err))
	}
	return nil
}

// writeFiles writes all files or none that is there already.
func writeFiles(p *cli.Program, files []draftFile, force bool) error {
	for _, f := range files {
		if _, err := os.Stat(f.name); err == nil && !force {
			return fmt.Errorf("%s is there already; use --add for one more agent, --force to write over it, or --out for another place", f.name)
		}
	}
	for _, f := range files {
		if err := os.MkdirAll(filepath.Dir(f.name), 0o755); err != nil { //nolint:gosec // policies are no secret
			return err
		}
		err := p.WriteOut(f.name, f.mode, func(w io.Writer) error {
			_, err := io.WriteString(w, f.text)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// printDraft lists the guesses and the next steps.
func printDraft(p *cli.Program, d draft, files []draftFile) error {
	for _, f := range files {
		cli.Printf(p.Stdout, "wrote %s\n", f.name)
	}
	cli.Printf(p.Stdout, "guessed, please check:\n")
	for _, s := range d.skills {
		cli.Printf(p.Stdout, "  skill %s is operation %s:%s/%s\n", s.id, d.id, s.effect(), s.operation)
		if said := s.hints.said(); said != "" {
			cli.Printf(p.Stdout, "    the server says %s\n", said)
		}
	}
	behind, slash := d.agent, "/" // some clients of A2A find the card relative to the URL
	switch {
	case len(d.command) > 0:
		return printCommandDraft(p, d)
	case d.mcp != "":
		behind, slash = d.mcp, ""
	default:
		cli.Printf(p.Stdout, "  a message that names no skill needs all of them\n")
	}
	cli.Printf(p.Stdout, "next:\n  powerbox config check%s\n  powerbox %s%s\n  point the clients of %s at %s/agents/%s%s\n  powerbox report%s\n",
		d.flag(), d.run(), d.flag(), behind, cmp.Or(d.base, "http://127.0.0.1:8700"), d.id, slash, d.flag())
	return nil
}

// run is the command by which a server reads the files: one runs already where an agent is
// added.
func (d *draft) run() string {
	if d.beside != "" {
		return "config reload"
	}
	return "serve --dev"
}

// flag is what the next commands need to find the file.
func (d *draft) flag() string {
	if d.out == cli.DefaultConfig {
		return ""
	}
	return " -c " + d.out
}
