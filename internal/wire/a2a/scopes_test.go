package a2a

import (
	"testing"

	"github.com/powerbox-project/powerbox"
)

// TestATK27_ScopeMembersUnderAnotherSpelling: what a lenient reader takes for a
// scope token or its links is not passed over.
func TestATK27_ScopeMembersUnderAnotherSpelling(t *testing.T) {
	decode := func(metadata, inMessage string) (Call, *Error) {
		body := `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"metadata":` + metadata +
			`,"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"metadata":` + inMessage + `}}}`
		return Decode([]byte(body), Header{Version: "1.0"}, powerbox.Limits{Bytes: 1 << 20, Depth: 64})
	}
	call, err := decode(`{"`+MemberScopeToken+`":{"a":1},"`+MemberLinks+`":[],"other":1}`, `{}`)
	if err != nil || call.Members == nil || call.Members.ScopeToken == nil || call.Members.Links == nil {
		t.Fatalf("%v %+v", err, call.Members)
	}
	if call.Members.ScopeToken.String() != `{"a":1}` || call.Members.Links.String() != "[]" {
		t.Errorf("%s %s", call.Members.ScopeToken, call.Members.Links)
	}
	if call, err := decode(`{"`+AuthorizationURI+`/more":1}`, `{}`); err != nil || call.Members != nil {
		t.Errorf("what is none of ours: %v %+v", err, call.Members)
	}
	for name, wrong := range map[string][2]string{
		"token in capitals":    {`{"urn:a2a:ext:authorization:v1/Capability_Token":{}}`, `{}`},
		"links with a long s":  {`{"urn:a2a:ext:authorization:v1/delegation_chain":[],"urn:a2a:ext:authorization:v1/Delegation_chain":[]}`, `{}`},
		"token in the message": {`{}`, `{"` + MemberScopeToken + `":{}}`},
		"links in the message": {`{}`, `{"` + MemberLinks + `":[]}`},
	} {
		if _, err := decode(wrong[0], wrong[1]); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
