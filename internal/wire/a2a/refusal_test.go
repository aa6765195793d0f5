package a2a

import "testing"

// TestRefusals: which answers say that an agent does not do something at all (CARD-12).
func TestRefusals(t *testing.T) {
	const details = `{"error":{"code":400,"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"%s"}]}}`
	reason := func(r string) string { return details[:len(details)-7] + r + `"}]}}` }
	for name, c := range map[string]struct {
		status int
		body   string
		task   bool
		want   int64
	}{
		"an answer":                   {200, `{}`, false, 0},
		"no streams":                  {400, reason("UNSUPPORTED_OPERATION"), false, CodeUnsupported},
		"no push":                     {400, reason("PUSH_NOTIFICATION_NOT_SUPPORTED"), false, CodePushNotSupported},
		"no extended card":            {400, reason("EXTENDED_AGENT_CARD_NOT_CONFIGURED"), false, CodeNoExtendedCard},
		"0.3":                         {501, `{"code":-32003,"message":"no"}`, false, CodePushNotSupported},
		"no such path":                {404, `404 page not found`, false, CodeMethodNotFound},
		"no such method":              {405, ``, true, CodeMethodNotFound},
		"no such task":                {404, reason("TASK_NOT_FOUND"), false, 0},
		"no such task, nothing said":  {404, `not found`, true, 0},
		"something else":              {400, reason("INVALID_PARAMS"), false, 0},
		"a failure of the agent":      {500, `oops`, false, 0},
		"a limit, and words about it": {429, `{"error":{"message":"UNSUPPORTED_OPERATION"}}`, false, 0},
	} {
		if code, refused := HTTPRefusal(c.status, []byte(c.body), c.task); code != c.want || refused != (c.want != 0) {
			t.Errorf("CARD-12 %s: %d %t", name, code, refused)
		}
	}
	for name, c := range map[string]struct {
		status, details string
		want            int64
	}{
		"good": {"0", "", 0}, "no such method": {"12", "", CodeMethodNotFound}, "unsupported": {"9", "..UNSUPPORTED_OPERATION..", CodeUnsupported},
		"no push": {"12", "PUSH_NOTIFICATION_NOT_SUPPORTED", CodePushNotSupported}, "not found": {"5", "TASK_NOT_FOUND", 0},
	} {
		if code, refused := GRPCRefusal(c.status, []byte(c.details)); code != c.want || refused != (c.want != 0) {
			t.Errorf("CARD-12 gRPC %s: %d %t", name, code, refused)
		}
	}
}
