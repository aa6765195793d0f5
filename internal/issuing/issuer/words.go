package issuer

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Words of an agent are not on record before a capability was issued for them:
// records stay, and no person has agreed to the words (ATK-84). Until then a record has
// their length and their digest, by which anyone who has the words finds them again.

// maxPurpose bounds how much of a purpose the record of a capability has, in bytes.
const maxPurpose = 500

// heard stands on record for an agent's words.
func heard(words string) string {
	sum := sha256.Sum256([]byte(words))
	return fmt.Sprintf("%d bytes, sha256 %s", len(words), base64.RawURLEncoding.EncodeToString(sum[:]))
}

// wanted is what the record of a request says of it: grants by name where the agent
// offers them, and everything else by its digest.
func (i *Issuer) wanted(agentID string, req Request) map[string]any {
	offered, other := []string{}, []string{}
	agent := i.all()[agentID]
	for _, id := range req.Grants {
		known := false
		if agent != nil {
			_, known = agent.Grant(id)
		}
		if known {
			offered = append(offered, id)
		} else {
			other = append(other, id)
		}
	}
	out := map[string]any{"grants": offered, "purpose_heard": heard(req.Purpose)}
	if len(other) > 0 {
		out["unknown_grants_heard"] = heard(strings.Join(other, "\n"))
	}
	return out
}

// purposeOnRecord is a purpose for which something was issued.
func purposeOnRecord(purpose string) string {
	if len(purpose) <= maxPurpose {
		return purpose
	}
	cut := purpose[:maxPurpose]
	for !utf8.ValidString(cut) {
		cut = cut[:len(cut)-1]
	}
	return cut
}

// refuseWords is refuse where the message repeats words of the caller. The record has
// recorded and the digest of the words in place of the message.
func refuseWords(code Code, words, recorded, format string, args ...any) *Refusal {
	r := refuse(code, format, args...)
	r.recorded = recorded + "; the caller's words have " + heard(words)
	return r
}

// onRecord is what a record says of a refusal.
func (r *Refusal) onRecord() string {
	if r.recorded != "" {
		return r.recorded
	}
	return r.Error()
}
