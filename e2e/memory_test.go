package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/powerbox-project/powerbox"
)

// TestATK26_NoAnswerIsAnothersAnswer makes the same calls of several callers to a
// gateway that has seen nothing, then again and again in other orders to one that
// remembers, and after a restart to one that remembers nothing: each call has one
// answer, whatever was asked before it.
func TestATK26_NoAnswerIsAnothersAnswer(t *testing.T) {
	overTools(t, func(t *testing.T, on wire) {
		w := start(t, options{on: on})
		alice, other := w.caller(aliceToken), w.caller(aliceToken)
		held, theirs := alice.reports(), other.reports()
		mail := alice.request("mail", map[string]any{"grants": []string{"mail:send"}, "purpose": "tell"})[0]
		narrow := alice.keep([]string{held.Token}, func(c powerbox.Clause) (powerbox.Clause, bool) { return c, c.Pattern.Name() != opSearch })
		calls := map[string]func() answer{}
		try := func(name string, by *caller, agent, skill, operation string, args map[string]any, chain ...string) {
			calls[name] = func() answer {
				return by.present(agent, data(skill, args), proven{chain: chain, operation: operation, arguments: args})
			}
		}
		handle, foreign := held.ResourceHandles[0].Handle, theirs.ResourceHandles[0].Handle
		read := func(h string) map[string]any { return map[string]any{"resourceHandle": h} }
		try("its own handle", alice, "documents", "retrieve_document", opRetrieve, read(handle), held.Token)
		try("another's handle", alice, "documents", "retrieve_document", opRetrieve, read(foreign), held.Token)
		try("another's chain", alice, "documents", "retrieve_document", opRetrieve, read(foreign), theirs.Token)
		try("another operation", alice, "documents", "delete_document", opDelete, read(handle), held.Token)
		try("search", alice, "documents", "search_documents", opSearch, map[string]any{}, held.Token)
		try("search, narrowed away", alice, "documents", "search_documents", opSearch, map[string]any{}, narrow...)
		try("read, narrowed", alice, "documents", "retrieve_document", opRetrieve, read(handle), narrow...)
		try("at another agent", alice, "mail", "send_mail", "mail/mail:send/send", map[string]any{"to": "x"}, held.Token)
		try("mail", alice, "mail", "send_mail", "mail/mail:send/send", map[string]any{"to": "x"}, mail.Token)
		try("mail's at documents", alice, "documents", "search_documents", opSearch, map[string]any{}, mail.Token)
		try("the other's own", other, "documents", "search_documents", opSearch, map[string]any{}, theirs.Token)
		var names []string
		for name := range calls {
			names = append(names, name)
		}
		slices.Sort(names)
		first := map[string]string{}
		round := func(what string) {
			rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			for _, name := range names {
				a := calls[name]()
				said := a.reason()
				if first[name] == "" {
					first[name] = "answered as " + said
				}
				if "answered as "+said != first[name] {
					t.Errorf("ATK-26 %s, %s: %q; the first time %q", what, name, said, first[name])
				}
			}
		}
		for n := range 4 {
			round(fmt.Sprint("round ", n))
		}
		w.again(func() {})
		round("after a restart")
		for name, allowed := range map[string]bool{"its own handle": true, "search": true, "read, narrowed": true, "mail": true, "the other's own": true} {
			if allowed != (first[name] == "answered as ") {
				t.Errorf("%s: %s", name, first[name])
			}
		}
		for _, name := range []string{"another's handle", "another's chain", "another operation", "search, narrowed away", "at another agent", "mail's at documents"} {
			if first[name] == "answered as " {
				t.Errorf("%s is allowed", name)
			}
		}
	})
}
