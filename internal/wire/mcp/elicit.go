package mcp

import (
	"fmt"
	"slices"

	"github.com/powerbox-project/powerbox"
)

// askApproval is the name under which the gateway itself asks a client of revision
// 2026-07-28 to send its user to a page. The answer is the gateway's and never reaches
// the server.
const askApproval = "powerbox_approval"

// Accepted is the answer of a client whose user agreed to open the page.
const Accepted = "accept"

// MetaCapabilities is where a request of revision 2026-07-28 lists the abilities of its
// client.
const MetaCapabilities = "io.modelcontextprotocol/clientCapabilities"

// sendsToURLs reports whether a client declares that it sends its user to URLs: with each
// request in revision 2026-07-28, and with initialize before. An empty member elicitation
// declares forms alone.
func sendsToURLs(meta, params powerbox.Value) bool {
	can, said := meta.Get(MetaCapabilities)
	if !said {
		can, _ = params.Get("capabilities")
	}
	elicits, _ := can.Get("elicitation")
	urls, _ := elicits.Get("url")
	return urls.Kind() == powerbox.KindObject
}

// withoutApproval takes the answer to [askApproval] out of a message. Earlier revisions
// have no such answers, and their messages stay as they are.
func withoutApproval(v powerbox.Value) (powerbox.Value, string) {
	params, _ := v.Get("params")
	meta, _ := params.Get("_meta")
	if revision, _ := meta.Get(MetaVersion); !revision.Equal(powerbox.String(Stateless)) {
		return v, ""
	}
	responses, _ := params.Get(paramResponses)
	said, ok := responses.Get(askApproval)
	if !ok {
		return v, ""
	}
	action, _ := said.Get("action")
	text, ok := action.Text()
	if !ok || text == "" {
		text = "cancel"
	}
	responses = without(responses, askApproval)
	if members, _ := responses.Members(); len(members) == 0 {
		return with(v, "params", without(params, paramResponses)), text
	}
	return with(v, "params", with(params, paramResponses, responses)), text
}

func without(v powerbox.Value, name string) powerbox.Value {
	members, _ := v.Members()
	var kept []powerbox.Member
	for _, m := range members {
		if m.Name != name {
			kept = append(kept, m)
		}
	}
	return powerbox.Object(kept...)
}

func with(v powerbox.Value, name string, value powerbox.Value) powerbox.Value {
	kept, _ := without(v, name).Members()
	return powerbox.Object(append(slices.Clone(kept), powerbox.Member{Name: name, Value: value})...)
}

// Page is a page to which a client sends its user.
type Page struct{ ID, URL, Message string }

// Asks is the answer of revision 2026-07-28 that sends the user to a page: the client
// calls again afterwards.
func (p Page) Asks(id []byte) []byte {
	params := powerbox.Object(
		powerbox.Member{Name: "mode", Value: powerbox.String("url")},
		powerbox.Member{Name: "message", Value: powerbox.String(p.Message)},
		powerbox.Member{Name: "url", Value: powerbox.String(p.URL)},
	)
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"input_required","inputRequests":{%q:{"method":"elicitation/create","params":%s}}}}`, id, askApproval, params)
}

// Required is the answer of revision 2025-11-25 that sends the user to a page: an error
// that names the page, after which the client calls again.
func (p Page) Required(id []byte) []byte {
	asked := powerbox.Object(
		powerbox.Member{Name: "mode", Value: powerbox.String("url")},
		powerbox.Member{Name: "elicitationId", Value: powerbox.String(p.ID)},
		powerbox.Member{Name: "url", Value: powerbox.String(p.URL)},
		powerbox.Member{Name: "message", Value: powerbox.String(p.Message)},
	)
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s,"data":{"elicitations":[%s]}}}`, id, CodeElicit, powerbox.String(p.Message), asked)
}
