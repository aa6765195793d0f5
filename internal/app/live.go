package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/powerbox-project/powerbox/internal/app/proxy"
	"github.com/powerbox-project/powerbox/internal/config"
	"github.com/powerbox-project/powerbox/internal/credential"
	"github.com/powerbox-project/powerbox/internal/issuing/catalogue"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
	"github.com/powerbox-project/powerbox/internal/issuing/sources"
	"github.com/powerbox-project/powerbox/internal/wire/openapi"
)

// liveSources are the sources in use, so that a reload leaves the unchanged ones with
// their connections and pages.
type liveSources struct {
	log  *slog.Logger
	mu   sync.Mutex
	made map[string]madeSource // by agent and settings
}

type madeSource struct {
	source issuer.Source
	end    func()
}

// liveKey has everything that a source depends on.
func liveKey(agent string, c config.LiveCollection) string { return fmt.Sprintf("%q %+v", agent, c) }

// liveCollections returns the live collections of an agent.
func (i *Instance) liveCollections(agent string) ([]issuer.Live, error) {
	var out []issuer.Live
	for n, c := range i.Config.Resources[agent].Live {
		one, err := i.liveCollection(agent, c)
		if err != nil {
			return nil, fmt.Errorf("resources.%s.live[%d]: %w", agent, n, err)
		}
		out = append(out, one)
	}
	return out, nil
}

// declaredCollection is a live collection as policies are checked against it.
func declaredCollection(agent string, c config.LiveCollection) catalogue.Collection {
	declared := catalogue.Collection{Agent: agent, Name: c.Collection, Attributes: map[string]catalogue.Attribute{}}
	for name, text := range c.Attributes {
		t, _ := catalogue.ParseType(text) // the configuration has no other
		declared.Attributes[name] = catalogue.Attribute{Type: t, Required: !slices.Contains(c.Optional, name)}
	}
	return declared
}

func (i *Instance) liveCollection(agent string, c config.LiveCollection) (issuer.Live, error) {
	source, err := i.liveSource(agent, c)
	return issuer.Live{
		Collection: declaredCollection(agent, c), Source: source, Actions: c.Actions, Action: c.Action, Limit: c.Limit, Scan: scannedPages,
		Hold: sources.Hold(c.Floor, sources.Clock{Now: i.Now, Fine: sources.Fine, Random: sources.Secure}),
	}, err
}

// scannedPages is how many pages one lookup reads at most.
const scannedPages = 20

// liveSource returns the guarded source of a collection, the one in use if there is one.
func (i *Instance) liveSource(agent string, c config.LiveCollection) (issuer.Source, error) {
	if i.live == nil { // a command, which asks no source
		i.live = &liveSources{log: slog.New(slog.DiscardHandler)}
	}
	i.live.mu.Lock()
	defer i.live.mu.Unlock()
	key := liveKey(agent, c)
	if made, ok := i.live.made[key]; ok {
		return made.source, nil
	}
	s, end, err := i.newSource(c)
	if err != nil {
		return nil, err
	}
	guarded := sources.Guard(s, sources.Settings{Prefix: c.Prefix, Timeout: c.Timeout, Fresh: c.Cache, Calls: c.Calls, Now: i.Now, Log: i.live.log})
	if i.live.made == nil {
		i.live.made = map[string]madeSource{}
	}
	i.live.made[key] = madeSource{guarded, end}
	return guarded, nil
}

func (i *Instance) newSource(c config.LiveCollection) (s sources.Source, end func(), err error) {
	nothing := func() {}
	switch kind, _ := c.Source.Kind(); kind {
	case "sql":
		set := c.Source.SQL
		made, err := sources.NewSQL(context.Background(), sources.SQLSettings{
			URL: func() (string, error) {
				data, err := os.ReadFile(string(set.URLFile))
				return strings.TrimSpace(string(data)), err
			},
			Statement: strings.TrimSpace(set.Statement), ID: set.ID, Name: set.Name, Page: set.Page, Connections: c.Calls, Timeout: c.Timeout,
		})
		if err != nil {
			return nil, nothing, fmt.Errorf("source.sql.url_file: %w", err)
		}
		return made, made.Close, nil
	case "openfga":
		set := c.Source.OpenFGA
		client, err := i.liveClient(set.Credential)
		return sources.OpenFGA{Client: client, URL: set.URL, Store: set.Store, Model: set.Model, Type: cmp.Or(set.Type, c.Collection)}, nothing, err
	case "spicedb":
		set := c.Source.SpiceDB
		client, err := i.liveClient(set.Credential)
		return sources.SpiceDB{Client: client, URL: set.URL, Type: cmp.Or(set.Type, c.Collection), Size: set.Page}, nothing, err
	case "authzen":
		set := c.Source.AuthZEN
		client, err := i.liveClient(set.Credential)
		return sources.AuthZEN{Client: client, URL: set.URL, Type: cmp.Or(set.Type, c.Collection), Size: set.Page}, nothing, err
	case "mcp":
		set := c.Source.MCP
		client, err := i.liveClient(set.Credential)
		return sources.MCP{Client: client, URL: set.URL, UserHeader: set.UserHeader}, nothing, err
	case "openapi":
		s, err = i.openAPISource(c.Source.OpenAPI)
		return s, nothing, err
	default:
		return nil, nothing, fmt.Errorf("source: %q is unknown", kind)
	}
}

// liveClient calls a source, with the operator's secret if there is one.
func (i *Instance) liveClient(c config.AgentCredential) (*http.Client, error) {
	client := proxy.CredentialClient()
	client.Timeout = 0 // the collection has its own
	if c.IsZero() {
		return client, nil
	}
	source, err := proxy.SourceOf(c, i.Now)
	if err != nil {
		return nil, fmt.Errorf("source: credential: %w", err)
	}
	p := &credential.Placed{Source: source}
	p.Header, p.Scheme, p.Query = c.Place()
	client.Transport = p.Transport(client.Transport, "")
	return client, nil
}

func (i *Instance) openAPISource(set config.LiveOpenAPI) (sources.Source, error) {
	data, err := os.ReadFile(string(set.Document))
	if err != nil {
		return nil, fmt.Errorf("source.openapi.document: %w", err)
	}
	root, err := openapi.Read(data)
	if err != nil {
		return nil, fmt.Errorf("source.openapi.document: %w", err)
	}
	described, err := openapi.Describe(root, set.URL)
	if err != nil {
		return nil, fmt.Errorf("source.openapi.document: %w", err)
	}
	n := slices.IndexFunc(described.Operations, func(o openapi.Operation) bool { return o.Name == openapi.Name(set.Operation) })
	if n < 0 {
		return nil, fmt.Errorf("source.openapi.operation: the document has no operation %q that can be called", set.Operation)
	}
	client, err := i.liveClient(set.Credential)
	if err != nil {
		return nil, err
	}
	s := sources.OpenAPI{
		Client: client, Operation: described.Operations[n], Principal: set.Principal, Cursor: set.Cursor, Items: set.Items, Next: set.Next, ID: set.ID, Name: set.Name,
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("source.openapi.%w", err)
	}
	return s, nil
}

// keepLive ends the sources that a configuration no longer has.
func (i *Instance) keepLive(c *config.Config) {
	used := map[string]bool{}
	for agent, r := range c.Resources {
		for _, one := range r.Live {
			used[liveKey(agent, one)] = true
		}
	}
	if i.live == nil {
		return
	}
	i.live.mu.Lock()
	defer i.live.mu.Unlock()
	for key, made := range i.live.made {
		if !used[key] {
			delete(i.live.made, key)
			go made.end() // it waits for calls in progress
		}
	}
}

// checkIDs refuses items of a catalogue whose ids a live collection can have, too.
func checkIDs(items []catalogue.Item, live []config.LiveCollection) error {
	for _, item := range items {
		for _, c := range live {
			if item.Collection == c.Collection || strings.HasPrefix(item.ID, c.Prefix) {
				return fmt.Errorf("item %q: the live collection %q has its name or its prefix %q", item.ID, c.Collection, c.Prefix)
			}
		}
	}
	return nil
}
