package gateway

import (
	"net/http"
	"net/url"

	"github.com/powerbox-project/powerbox/gate"
	"github.com/powerbox-project/powerbox/internal/identity"
	"github.com/powerbox-project/powerbox/internal/wire/a2a"
	"github.com/powerbox-project/powerbox/internal/wire/mcp"
)

// A call goes through five stages, each a type that holds the one before:
//
//	received -> identified -> decoded -> decided -> forwardable
//
// and ends as concluded.
//
// No stage changes after it was made, and each is made in one place: [Gateway.identify],
// [Gateway.decode], [Gateway.decide] and [Gateway.forwardable]. Only a forwardable goes to
// an agent, and only a decided call becomes one, so that no path skips a stage. An approved
// call that is released, a page of a list and a relayed event go the same way.

// received is a request as it came. Nothing of its body has been read.
type received struct {
	*agent
	request *http.Request
	binding a2a.Binding
	skill   string   // named by the URL, "" for none
	path    string   // of HTTP+JSON, below the agent's URL, as it was sent
	trace   traced   // of which the call is part, once its message was read
	carries *Carries // what the proxy that asks can do; nil for a call that is forwarded here
	notes   *notes
}

// identified is a request whose caller is known, or known to be anonymous.
type identified struct {
	*received
	caller   identity.Caller
	consumed bool      // the Authorization header is ours
	unproven error     // why the caller is not known; only observe forwards such a call
	mode     gate.Mode // configured for the agent
	released *Released // the approved call that is made again; nil for a call of now
	count    *tally    // by whom it is counted; nil for what no caller sends
}

// decoded is one call, read from bytes that the gateway wrote.
type decoded struct {
	*identified
	view  *view
	mode  gate.Mode // for this caller and call
	body  []byte    // as received
	proof []byte    // what a proof is about: the body, and in gRPC the message in it
	call  a2a.Call
	mcp   mcp.Message // of MCP alone; of GET the id of the request whose stream it resumes
	wrong *a2a.Error  // why it could not be read; only observe forwards such a call

	lastEvent string // the server's id of the event behind which GET resumes a request's stream; "" for none
}

// attempted is what a call tries, as far as later stages need it.
type attempted struct {
	named   a2a.Named
	mapped  Skill // zero where no skill is named
	isNamed bool
	handed  []string // ids of other agents' capabilities, for the agent behind
	claims  bool     // the context that it names has no owner yet, and will be the caller's
	trace   string
}

// decided is a call with the gate's answer.
type decided struct {
	*decoded
	attempted
	verdict gate.Verdict
	learned *learned
}

// forwardable is what goes to the agent: bytes that were made from a decided call, and
// nothing else.
type forwardable struct {
	*decided
	url     *url.URL
	unnamed bool // the agent's card names a host that no operator did
	method  string
	query   string
	added   string // the part of the query that is not of the agent's card
	body    []byte
	header  http.Header
	person  string     // for whom the call is, by the name at the agent; "" for none
	own     []HeldTask // of the caller, which go into the list
}

// notes are what the caller was told and how far a call came, for the observer. Nothing
// is decided by them.
type notes struct {
	code      string // that the caller was told, "" for none
	throttled bool   // one of a burst of denials
	signal    bool   // a burst of denials begins with it
	decoded   *decoded
	verdict   gate.Verdict
}

// learned is what an answer told, for the record of the outcome.
type learned struct {
	names      names    // tasks and contexts that the answer told
	ended      []string // tasks that the answer says have ended, and whose capabilities have not
	begun      string   // the task that the answer says the message began, "" for none
	drifted    []string // what the agent did that its card does not declare
	refusedAsk bool     // the answer asked what configuration does not let through
	unfit      error    // why an event of an MCP server is not let through
	unmade     bool     // the call was not brought to the agent
	outcome    string   // the id of the record of the outcome, "" for none

	label *gate.Label // of the answer; nil where nothing is labelled
}

// stage is what an answer to the caller needs: a decoded call of which nothing was
// decided, or a concluded one.
type stage interface{ readable() *decoded }

func (x *decoded) readable() *decoded { return x }

// readable hides that of the decoded call: a decided call is no stage, and has an answer
// once it is concluded.
func (x *decided) readable() {}

var _ = (*decided).readable

// decision is any stage from decided on: what the record of an outcome needs.
type decision interface{ taken() *decided }

func (x *decided) taken() *decided { return x }

// unread is the stage for an answer to a request that was not decoded. id is that of the
// request, as far as it was looked for.
func (i *identified) unread(id []byte, streaming bool) *decoded {
	x := &decoded{identified: i, mode: i.mode, call: a2a.Call{Binding: i.binding, ID: id, Streaming: streaming}}
	i.notes.decoded = x
	return x
}

// elsewhere reports whether only the agent can tell the tenant of a call: it
// could not be read, or names none that can be.
func (x *decoded) elsewhere() bool { return x.wrong != nil || x.unnamedTenant() || x.tenantIn03() }
