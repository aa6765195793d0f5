package rows

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/powerbox-project/powerbox"
	"github.com/powerbox-project/powerbox/internal/issuing/issuer"
)

// body is the stored form of a capability.
type body struct {
	issuer.Capability
	Authority json.RawMessage
}

func encode(c issuer.Capability) ([]byte, error) {
	b := body{Capability: c, Authority: c.Authority.JSON().AppendJSON(nil)}
	b.Capability.Authority = powerbox.Authority{}
	return json.Marshal(b)
}

func decode(data []byte) (issuer.Capability, error) {
	b, err := decodeBody(data)
	if err != nil {
		return issuer.Capability{}, err
	}
	v, err := powerbox.ParseValue(b.Authority)
	if err != nil {
		return issuer.Capability{}, fmt.Errorf("store: capability %s is damaged: %w", b.ID, err)
	}
	if b.Capability.Authority, err = powerbox.ParseAuthority(v); err != nil {
		return issuer.Capability{}, fmt.Errorf("store: capability %s is damaged: %w", b.ID, err)
	}
	return b.Capability, nil
}

// decodeBody reads a capability without its authority.
func decodeBody(data []byte) (b body, err error) {
	if err = json.Unmarshal(data, &b); err != nil {
		err = fmt.Errorf("store: a stored capability is damaged: %w", err)
	}
	return b, err
}

// PutCapability implements [issuer.Tx].
func (t Tx) PutCapability(c issuer.Capability) error {
	data, err := encode(c)
	if err != nil {
		return err
	}
	if _, err := decode(data); err != nil { // what cannot be read again would be in force and refuse every call
		return err
	}
	return t.exec("capability "+c.ID,
		"INSERT INTO capability (id, root, parent, agent, holder, requester, principal, grant_id, once, revocation_id, expires, created, made, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		c.ID, c.Root, parentOf(c), c.Agent, c.Holder, c.Requester, c.Principal, c.Grant, c.Once, c.RevocationID, c.Expires.Unix(), c.Created.UnixMilli(), t.made(), data)
}

// parentOf is the capability that another was narrowed from, "" for a root.
func parentOf(c issuer.Capability) string {
	if n := len(c.Ancestors); n > 0 {
		return c.Ancestors[n-1]
	}
	return ""
}

// Capability implements [issuer.Reader].
func (r Reader) Capability(id string) (issuer.Capability, error) {
	return first(r.capabilities("SELECT body FROM capability WHERE id = ?", id))
}

// CapabilityByRevocation implements [issuer.Reader].
func (r Reader) CapabilityByRevocation(id string) (issuer.Capability, error) {
	return first(r.capabilities("SELECT body FROM capability WHERE revocation_id = ?", id))
}

// HeldBy and HeldByGrant select by reading one index, and of that only its live entries;
// bodies are read of the selected ones. Each store tests that its planner does so.
const (
	HeldBy      = held + newest
	HeldByGrant = held + ` AND grant_id = ?` + newest

	held = `SELECT body FROM capability WHERE made IN (
		SELECT made FROM capability
		WHERE agent = ? AND holder = ? AND principal = ? AND expires > ?`
	newest = ` ORDER BY created DESC, made DESC LIMIT ?)
	ORDER BY created DESC, made DESC`
)

// HeldBy implements [issuer.Reader].
func (r Reader) HeldBy(q issuer.HeldQuery) ([]issuer.Capability, error) {
	if q.Limit < 1 {
		return nil, errors.New("store: held by: Limit must be 1 at least")
	}
	if q.Grant == "" {
		return r.capabilities(HeldBy, q.Agent, q.Holder, q.Principal, q.After.Unix(), q.Limit)
	}
	return r.capabilities(HeldByGrant, q.Agent, q.Holder, q.Principal, q.After.Unix(), q.Grant, q.Limit)
}

// below adds to a beginning of a tree, with columns place and id, all that descends from it.
// A descendant never expires after its parent. The index on parents leaves out the roots.
const below = `
	UNION SELECT child.made, child.id FROM tree JOIN capability child ON child.parent = tree.id AND child.parent <> '' WHERE child.expires > ?`

// Trees implements [issuer.Reader].
func (r Reader) Trees(q issuer.TreeQuery) iter.Seq2[issuer.Capability, error] {
	return func(yield func(issuer.Capability, error) bool) {
		query, args, err := TreesStatement(q)
		if err != nil || query == "" {
			if err != nil {
				yield(issuer.Capability{}, err)
			}
			return
		}
		for data, err := range r.raw(query, args...) {
			var c issuer.Capability
			switch {
			case err != nil:
			case q.Brief:
				var b body
				b, err = decodeBody(data)
				c = b.Capability
			default:
				c, err = decode(data)
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// TreesStatement is the query of [Reader.Trees], "" for none. Every member has an index of its
// own, of which only live entries are read. Each store tests that its planner does so. The limit
// ends the walk itself, since the tree is not materialized. UNION ALL keeps the order of rows free:
// for UNION, SQLite reads the whole table in that order.
func TreesStatement(q issuer.TreeQuery) (query string, args []any, err error) {
	if q.Limit < 1 {
		return "", nil, errors.New("store: trees: Limit must be 1 at least")
	}
	var begins []string
	for _, c := range []struct {
		column string
		values []string
	}{{"id", q.IDs}, {"agent", q.Agents}, {"holder", q.Holders}, {"requester", q.Requesters}, {"principal", q.Principals}} {
		for _, value := range c.values {
			begins, args = append(begins, "SELECT made, id FROM capability WHERE "+c.column+" = ? AND expires > ?"), append(args, value, q.After.Unix())
		}
	}
	if q.Once {
		begins, args = append(begins, "SELECT made, id FROM capability WHERE once = true AND expires > ?"), append(args, q.After.Unix())
	}
	if len(begins) == 0 {
		return "", nil, nil
	}
	return "WITH RECURSIVE tree (place, id) AS NOT MATERIALIZED (" + strings.Join(begins, " UNION ALL ") + below + ") SELECT body FROM capability WHERE made IN (SELECT place FROM tree LIMIT ?) ORDER BY made",
		append(args, q.After.Unix(), q.Limit), nil
}

// Holders implements [issuer.Reader]. It leaps from one holder to the next in an index.
func (r Reader) Holders() ([]string, error) {
	return list(r, "holders", scanText, `WITH RECURSIVE found (holder) AS (
		SELECT (SELECT holder FROM capability ORDER BY holder LIMIT 1)
		UNION ALL SELECT (SELECT capability.holder FROM capability WHERE capability.holder > found.holder ORDER BY capability.holder LIMIT 1) FROM found WHERE found.holder IS NOT NULL)
		SELECT holder FROM found WHERE holder IS NOT NULL`)
}

// IssuedAfter implements [issuer.Reader]. It reads the end of an index: few capabilities, if
// any, were issued in the future.
func (r Reader) IssuedAfter(at time.Time, q issuer.IssuedQuery) (time.Time, error) {
	query, args := "SELECT COALESCE(MAX(created), 0) FROM capability WHERE created > ? AND parent = ''", []any{at.UnixMilli()}
	for _, c := range []struct{ column, value string }{{"agent", q.Agent}, {"principal", q.Principal}} {
		if c.value != "" {
			query, args = query+" AND "+c.column+" = ?", append(args, c.value)
		}
	}
	var newest int64
	if err := r.db.QueryRow(query, args...).Scan(&newest); err != nil {
		return time.Time{}, fmt.Errorf("store: capabilities issued after %s: %w", at, err)
	}
	if newest == 0 {
		return time.Time{}, nil
	}
	return time.UnixMilli(newest).UTC(), nil
}

// LiveBefore implements [issuer.Reader].
func (r Reader) LiveBefore(q issuer.LiveQuery) ([]issuer.Capability, error) {
	if q.Limit < 1 {
		return nil, errors.New("store: live capabilities: Limit must be 1 at least")
	}
	before := int64(math.MaxInt64)
	if q.Before != "" {
		err := r.db.QueryRow("SELECT made FROM capability WHERE id = ?", q.Before).Scan(&before)
		if errors.Is(err, ErrNone) {
			return nil, issuer.ErrNotFound
		}
		if err != nil {
			return nil, fmt.Errorf("store: live capabilities: %w", err)
		}
	}
	if q.Below == "" {
		query, args := NewestStatement(q, before)
		page, err := r.capabilities(query, args...)
		if err != nil || len(page) == q.Limit {
			return page, err
		}
	}
	query, args := LiveStatement(q, before)
	return r.capabilities(query, args...)
}

// Recent is how many capabilities a page is looked for in first, from the newest on. Most
// pages are found there, so their cost does not grow with the number of live capabilities.
const Recent = 1000

// NewestStatement is the query of [Reader.LiveBefore] within [Recent] capabilities.
func NewestStatement(q issuer.LiveQuery, before int64) (query string, args []any) {
	where, selected := liveWhere(q)
	return "SELECT body FROM capability WHERE made IN (SELECT made FROM (SELECT made, expires, agent, holder, requester, principal, root FROM capability WHERE made < ? ORDER BY made DESC LIMIT ?) AS recent WHERE " +
		where + " ORDER BY made DESC LIMIT ?) ORDER BY made DESC", slices.Concat([]any{before, Recent}, selected, []any{q.Limit})
}

// LiveStatement is the query of [Reader.LiveBefore]. Bodies are read of the selected rows alone.
// The order is by +made, which no index has: otherwise a database can look through all that was
// ever issued for the few that match.
func LiveStatement(q issuer.LiveQuery, before int64) (query string, args []any) {
	where, args := liveWhere(q)
	where, args = where+" AND +made < ?", append(args, before)
	if q.Below != "" {
		where += " AND made IN (WITH RECURSIVE tree (place, id) AS (SELECT made, id FROM capability WHERE parent = ? AND parent <> '' AND expires > ?" + below + ") SELECT place FROM tree)"
		args = append(args, q.Below, q.After.Unix(), q.After.Unix())
	}
	return "SELECT body FROM capability WHERE made IN (SELECT made FROM capability WHERE " + where + " ORDER BY +made DESC LIMIT ?) ORDER BY made DESC", append(args, q.Limit)
}

// liveWhere is the condition of a query, without the tree that it asks for.
func liveWhere(q issuer.LiveQuery) (where string, args []any) {
	where, args = "expires > ?", []any{q.After.Unix()}
	for _, c := range []struct{ column, value string }{{"agent", q.Agent}, {"holder", q.Holder}, {"requester", q.Requester}, {"principal", q.Principal}, {"root", q.Root}} {
		if c.value != "" {
			where, args = where+" AND "+c.column+" = ?", append(args, c.value)
		}
	}
	if q.Agents != nil {
		where += " AND " + oneOf("agent", len(q.Agents))
		for _, agent := range q.Agents {
			args = append(args, agent)
		}
	}
	return where, args
}

// oneOf is the condition that a column has one of n values.
func oneOf(column string, n int) string {
	if n == 0 {
		return "1 = 0"
	}
	return column + " IN (?" + strings.Repeat(", ?", n-1) + ")"
}

func (r Reader) capabilities(query string, args ...any) ([]issuer.Capability, error) {
	var out []issuer.Capability
	for data, err := range r.raw(query, args...) {
		if err != nil {
			return nil, err
		}
		c, err := decode(data)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// Revoke implements [issuer.Tx].
func (t Tx) Revoke(r issuer.Revocation) (int64, error) {
	var sequence int64
	if r.Kind == issuer.KindRevoke {
		err := t.db.QueryRow("SELECT sequence FROM revocation WHERE target = ? AND kind = 'revoke' AND until >= ? ORDER BY sequence LIMIT 1",
			r.Target, unix(r.Until)).Scan(&sequence)
		if err == nil {
			return sequence, nil
		}
		if !errors.Is(err, ErrNone) {
			return 0, fmt.Errorf("store: revocation: %w", err)
		}
	}
	switch r.Kind {
	case issuer.KindRevoke, issuer.KindFreeze, issuer.KindThaw, issuer.KindExtend, issuer.KindEpoch:
	default:
		return 0, fmt.Errorf("store: revocation of %q has kind %q; want revoke, freeze, thaw, extend or epoch", r.Target, r.Kind)
	}
	err := t.db.QueryRow(`INSERT INTO revocation (sequence, kind, target, by_whom, reason, at, until)
		VALUES ((SELECT COALESCE(MAX(sequence), 0) + 1 FROM revocation), ?, ?, ?, ?, ?, ?) RETURNING sequence`,
		string(r.Kind), r.Target, r.By, r.Reason, r.At.Unix(), unix(r.Until)).Scan(&sequence)
	if err != nil {
		return 0, fmt.Errorf("store: revocation: %w", err)
	}
	t.counts.Stops = sequence
	return sequence, nil
}

// Revocations implements [issuer.Reader].
func (r Reader) Revocations(after int64) ([]issuer.Revocation, error) {
	return list(r, "revocations", scanRevocation, "SELECT sequence, kind, target, by_whom, reason, at, until FROM revocation WHERE sequence > ? ORDER BY sequence", after)
}

func scanRevocation(row Row) (one issuer.Revocation, err error) {
	var at, until int64
	var kind string
	err = row.Scan(&one.Sequence, &kind, &one.Target, &one.By, &one.Reason, &at, &until)
	one.Kind, one.At, one.Until = issuer.Kind(kind), time.Unix(at, 0).UTC(), moment(until)
	return one, err
}

// The statements of a start, and of lookups before it has read everything. Each reads an index, whose
// entries are those that it selects. Each store tests that its planner does so.
const (
	RevokedStatement      = "SELECT until, target FROM revocation WHERE kind = 'revoke' AND (until, target) > (?, ?) ORDER BY until, target LIMIT ?"
	RevokedUntilStatement = "SELECT until FROM revocation WHERE target = ? AND kind = 'revoke' AND until >= ? LIMIT 1"
	StopsStatement        = `SELECT sequence, kind, target, by_whom, reason, at, until FROM revocation WHERE kind <> 'revoke'
		UNION SELECT sequence, kind, target, by_whom, reason, at, until FROM revocation WHERE sequence = (SELECT MAX(sequence) FROM revocation) ORDER BY sequence`
)

// Revoked implements [issuer.Reader].
func (r Reader) Revoked(behind issuer.RevokedPlace, limit int, take func(issuer.RevokedPlace)) error {
	return r.each("revocations", func(row Row) error {
		var one issuer.RevokedPlace
		err := row.Scan(&one.Until, &one.Target)
		if err == nil {
			take(one)
		}
		return err
	}, RevokedStatement, behind.Until, behind.Target, limit)
}

// RevokedUntil implements [issuer.Reader].
func (r Reader) RevokedUntil(target string, ends time.Time) (bool, error) {
	var until int64
	err := r.db.QueryRow(RevokedUntilStatement, target, ends.Unix()).Scan(&until)
	if errors.Is(err, ErrNone) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("store: revocation: %w", err)
	}
	return true, nil
}

// Stops implements [issuer.Reader].
func (r Reader) Stops() ([]issuer.Revocation, error) {
	return list(r, "events", scanRevocation, StopsStatement)
}

// TaskOwner implements [issuer.Reader].
func (r Reader) TaskOwner(agent, tenant, task string) (issuer.Owner, bool, error) {
	var o issuer.Owner
	err := r.db.QueryRow("SELECT root, principal, holder FROM task WHERE agent = ? AND tenant = ? AND task = ?", agent, tenant, task).
		Scan(&o.Root, &o.Principal, &o.Holder)
	if errors.Is(err, ErrNone) {
		return issuer.Owner{}, false, nil
	}
	if err != nil {
		return issuer.Owner{}, false, fmt.Errorf("store: task owner: %w", err)
	}
	return o, true, nil
}

// BindTask implements [issuer.Tx].
func (t Tx) BindTask(agent, tenant, task string, o issuer.Owner) (issuer.Owner, error) {
	err := t.exec("task owner", "INSERT INTO task (agent, tenant, task, root, principal, holder) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		agent, tenant, task, o.Root, o.Principal, o.Holder)
	if err != nil {
		return issuer.Owner{}, err
	}
	owner, _, err := t.TaskOwner(agent, tenant, task)
	return owner, err
}

// TaskNamed implements [issuer.Reader].
func (r Reader) TaskNamed(agent, tenant, task string) (bool, error) {
	var named bool
	err := r.db.QueryRow("SELECT EXISTS (SELECT 1 FROM named_task WHERE agent = ? AND tenant = ? AND task = ?)", agent, tenant, task).Scan(&named)
	if err != nil {
		return false, fmt.Errorf("store: named task: %w", err)
	}
	return named, nil
}

// NameTask implements [issuer.Tx].
func (t Tx) NameTask(agent, tenant, task string) error {
	return t.exec("named task", "INSERT INTO named_task (agent, tenant, task) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", agent, tenant, task)
}

// Modes implements [issuer.Reader].
func (r Reader) Modes() (map[string]string, error) {
	return r.named("modes", "SELECT agent, mode FROM mode")
}

// named reads two texts from each row.
func (r Reader) named(what, query string) (map[string]string, error) {
	out := map[string]string{}
	err := r.each(what, func(row Row) error {
		var name, value string
		err := row.Scan(&name, &value)
		out[name] = value
		return err
	}, query)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// SetMode implements [issuer.Tx].
func (t Tx) SetMode(agent, mode string) error {
	t.counts.Modes++
	return t.exec("mode", "INSERT INTO mode (agent, mode) VALUES (?, ?) ON CONFLICT (agent) DO UPDATE SET mode = excluded.mode", agent, mode)
}
