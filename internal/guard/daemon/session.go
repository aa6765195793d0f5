package daemon

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/guard"
	"github.com/powerbox-project/powerbox/internal/guard/install"
)

// agent is a holder in a session: its main agent, which has the id "", or a sub-agent.
type agent struct {
	ID     string   `json:"id"`
	Type   string   `json:"type,omitempty"`
	Parent string   `json:"parent,omitempty"`
	Also   []string `json:"also,omitempty"` // others that may have started it; it is narrower than they are, too
	Ended  bool     `json:"ended,omitempty"`

	lease    Lease
	approved []powerbox.Authority
}

// spawn is a sub-agent that a call has announced.
type spawn struct{ call, parent, kind string }

// session is one session of a client.
type session struct {
	Client  string   `json:"client"`
	ID      string   `json:"id"`
	Project string   `json:"project"`
	Grant   string   `json:"grant"` // its text, as it was when the session began
	Agents  []*agent `json:"agents"`
	Ended   bool     `json:"ended,omitempty"`
	// Read are the sources of untrusted data that any agent of the session has read. Agents of
	// a session tell each other what they read.
	Read []string `json:"read,omitempty"`

	grant  guard.Grant
	root   Lease
	began  time.Time
	spawns []spawn
}

func newID(prefix string, random io.Reader) (string, error) {
	var b [12]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", err
	}
	return prefix + hex.EncodeToString(b[:]), nil
}

func fileName(parts ...string) string {
	text, _ := json.Marshal(parts) //nolint:errchkjson // strings always marshal
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

func (s *session) agent(id string) *agent {
	for _, a := range s.Agents {
		if a.ID == id {
			return a
		}
	}
	return nil
}

// live are the sub-agents that have not ended.
func (s *session) live() []*agent {
	var out []*agent
	for _, a := range s.Agents {
		if a.ID != "" && !a.Ended {
			out = append(out, a)
		}
	}
	return out
}

// load returns a session that this or an earlier process has opened, nil for none.
func (d *Daemon) load(client, id string) (*session, error) {
	key := client + "\n" + id
	if s := d.sessions[key]; s != nil {
		return s, nil
	}
	text, err := os.ReadFile(d.sessionFile(client, id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &session{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("the state of session %q cannot be read: %w", id, err)
	}
	if s.grant, err = guard.ParseGrant([]byte(s.Grant)); err != nil {
		return nil, err
	}
	d.sessions[key] = s
	return s, nil
}

func (d *Daemon) sessionFile(client, id string) string {
	return filepath.Join(d.config.State, "sessions", fileName(client, id)+".json")
}

// save keeps who there is in a session, so that an ended sub-agent stays ended after a restart.
func (d *Daemon) save(s *session) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	file := d.sessionFile(s.Client, s.ID)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return install.Replace(file, text, 0o600)
}

// open returns the session of an event, and begins it where there is none.
func (d *Daemon) open(client string, e guard.Event, now time.Time) (*session, error) {
	if e.Session == "" || e.Dir == "" {
		return nil, errors.New("the hook names no session or no folder")
	}
	s, err := d.load(client, e.Session)
	if err != nil {
		return nil, err
	}
	if s == nil {
		project, text, err := Grants{d.config.State}.Find(e.Dir)
		if err != nil {
			return nil, err
		}
		s = &session{Client: client, ID: e.Session, Project: project, Grant: string(text)}
		if s.grant, err = guard.ParseGrant(text); err != nil {
			return nil, err
		}
		s.Agents = []*agent{{ID: ""}}
		d.sessions[client+"\n"+e.Session] = s
		if err := d.save(s); err != nil {
			return nil, err
		}
	}
	if s.Ended && e.Moment == guard.SessionStart { // it is resumed
		s.Ended, s.root, s.Agents[0].Ended = false, Lease{}, false
		if err := d.save(s); err != nil {
			return nil, err
		}
	}
	return s, d.renew(s, now)
}

// renew makes the leases of a session that has none, or whose lease is about to end.
func (d *Daemon) renew(s *session, now time.Time) error {
	if s.Ended || s.root.chain != "" && now.Sub(s.began) < sessionLife-time.Hour {
		return nil
	}
	at := Place(s.Project, d.config.Home)
	a, err := s.grant.Authority(at, window(now))
	if err != nil {
		return err
	}
	if s.root, err = d.mint.Root(a, now); err != nil {
		return err
	}
	s.began = now
	main := s.agent("")
	main.lease = s.root
	if s.grant.Main != nil {
		b, err := s.grant.Main.Authority(at, window(now))
		if err != nil {
			return err
		}
		if main.lease, err = d.mint.Derive(s.root, []powerbox.Authority{b}, 0, now); err != nil {
			return err
		}
	}
	for _, a := range s.Agents { // parents stand before their children
		if a.ID != "" && !a.Ended {
			if err := d.derive(s, a, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// start gives a sub-agent its lease.
func (d *Daemon) start(s *session, e guard.Event, now time.Time) (*agent, error) {
	if a := s.agent(e.Agent); a != nil {
		return a, nil
	}
	a := &agent{ID: e.Agent, Type: e.AgentType}
	parents := s.parents(e, a)
	a.Parent, a.Also = parents[0], parents[1:]
	if err := d.derive(s, a, now); err != nil {
		return nil, err
	}
	s.Agents = append(s.Agents, a)
	return a, d.save(s)
}

// parents returns who may have started a sub-agent, never none. Where the client does not say
// it, that is everyone who announced one of its type; where no one did, everyone.
func (s *session) parents(e guard.Event, a *agent) []string {
	var out []string
	first := -1
	for i, sp := range s.spawns {
		if a.Type != "" && sp.kind != a.Type || e.ParentKnown && sp.parent != e.Parent {
			continue
		}
		if first < 0 {
			first = i
		}
		if !slices.Contains(out, sp.parent) {
			out = append(out, sp.parent)
		}
	}
	if first >= 0 {
		a.Type = cmp.Or(a.Type, s.spawns[first].kind)
		s.spawns = slices.Delete(s.spawns, first, first+1)
	}
	switch {
	case e.ParentKnown:
		return []string{e.Parent}
	case len(out) > 0:
		return out
	}
	out = []string{""}
	for _, other := range s.live() {
		out = append(out, other.ID)
	}
	return out
}

// derive makes the lease of a sub-agent from that of its parent.
func (d *Daemon) derive(s *session, a *agent, now time.Time) error {
	from := s.root
	if a.Parent != "" {
		p := s.agent(a.Parent)
		if p == nil || p.Ended {
			a.lease = Lease{}
			return nil
		}
		from = p.lease
	}
	authority, err := d.mint.Authority(from, d.isRevoked, now)
	if err != nil {
		return err
	}
	b, life, err := bounds(s.grant, a.Type, Place(s.Project, d.config.Home), authority, now)
	if err != nil {
		return err
	}
	all := []powerbox.Authority{b}
	for _, id := range a.Also {
		other := s.root
		if o := s.agent(id); id != "" && o != nil {
			other = o.lease
		}
		limit, err := d.mint.Authority(other, d.isRevoked, now)
		if err != nil {
			return err
		}
		all = append(all, limit)
	}
	a.lease, err = d.mint.Derive(from, all, life, now)
	return err
}

// end ends a sub-agent with every lease that descends from its own.
func (d *Daemon) end(s *session, a *agent) error {
	a.Ended = true
	if a.lease.id != "" {
		d.revoked[a.lease.id] = true
	}
	for _, child := range s.live() {
		if child.Parent == a.ID {
			if err := d.end(s, child); err != nil {
				return err
			}
		}
	}
	return d.save(s)
}

func (d *Daemon) isRevoked(id string) bool { return d.revoked[id] }
