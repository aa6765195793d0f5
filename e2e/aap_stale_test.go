package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestAAPA11_WhatNobodyApproved has a day go by in the store: unapproved agents and
// hosts are deleted, and the records of actions stay.
func TestAAPA11_WhatNobodyApproved(t *testing.T) {
	aboutTheFile(t)
	b := newBank(t, bankOptions{})
	kept := b.active("alice", "check_balance")
	stale, r := b.register(newOKP(t), map[string]any{"capabilities": []any{"check_balance"}})
	b.want("register", r, http.StatusOK, "")
	fresh, r := b.register(newOKP(t), map[string]any{"capabilities": []any{"check_balance"}})
	b.want("register", r, http.StatusOK, "")
	b.again(func() {
		for _, of := range []string{"host", "host_agent"} {
			column := map[string]string{"host": "id IN (SELECT host FROM host_agent WHERE id IN (%s))", "host_agent": "id IN (%s)"}[of]
			b.sql("UPDATE " + of + " SET body = CAST(json_set(CAST(body AS TEXT), '$.Updated', '" + time.Now().Add(-25*time.Hour).UTC().Format(time.RFC3339) + "') AS BLOB) WHERE " +
				fmt.Sprintf(column, "'"+stale.id+"', '"+kept.id+"'"))
		}
	})
	var last reply // 429 now and then: callers that poll a waiting request are told to poll less
	eventually(t, patience, func() string { return "AAP-A11 it is there: " + last.Raw }, func() bool {
		last = stale.state()
		return last.Status == http.StatusNotFound
	})
	// Its host is unknown again, and registers anew.
	again, r := b.register(stale.host, map[string]any{"capabilities": []any{"check_balance"}})
	b.want("AAP-A11 deleted, not revoked", r, http.StatusOK, "")
	b.want("approve", b.approve("bob", again.code, map[string]any{}), http.StatusOK, "")
	if s := kept.state(); s.text("status") != "active" {
		t.Errorf("AAP-A11 an approved one: %s", s.Raw)
	}
	if s := fresh.state(); s.text("status") != "pending" {
		t.Errorf("AAP-A11 one of just now: %s", s.Raw)
	}
}

// TestAAPT2_UsedTokens shows a token again after its end, where a clock that is off
// would still let it in: it was used, and is remembered for that long.
func TestAAPT2_UsedTokens(t *testing.T) {
	b := newBank(t, bankOptions{})
	m := b.active("alice", "check_balance")
	at := b.url + "/capability/execute"
	ends := fact{"iat": nowUnix(), "exp": nowUnix() + 1}
	used, unused := m.token(at, ends), m.token(at, ends)
	try := func(token string) reply {
		return b.ask(http.MethodPost, "/capability/execute", token, args("capability", "check_balance", "arguments", args("account_id", "acc_456")))
	}
	b.want("AAP-T2 the first time", try(used), http.StatusOK, "")
	b.want("AAP-T2 again", try(used), http.StatusUnauthorized, "invalid_jwt")
	for nowUnix() < ends["exp"].(int64)+2 {
		<-time.After(100 * time.Millisecond)
	}
	b.want("AAP-T2 again, after its end", try(used), http.StatusUnauthorized, "invalid_jwt")
	b.want("AAP-T2 another one, which only the skew lets in", try(unused), http.StatusOK, "")
}
