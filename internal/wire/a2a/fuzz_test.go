package a2a

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/powerbox-project/powerbox"
)

// Decode finds the same values as a lenient reader in the same bytes: encoding/json
// ignores case and takes the last of several, as agents built on it do (ATK-27).
func FuzzDecode(f *testing.F) {
	for _, c := range cases[decodeCase](f, "decode.json") {
		f.Add(c.bytes(), c.Version)
	}
	f.Fuzz(func(t *testing.T, body []byte, version string) {
		call, err := Decode(body, Header{Version: version}, testLimits)
		if err != nil {
			if err.Code == 0 || err.Reason == "" || err.Message == "" {
				t.Errorf("error without code, reason or message: %+v", err)
			}
			if !json.Valid(err.Denial().JSONRPC(call.ID)) {
				t.Errorf("answer is no JSON: %s", err.Denial().JSONRPC(call.ID))
			}
			return
		}
		var lenient struct {
			Method string
			ID     json.RawMessage
			Params json.RawMessage
		}
		if err := json.Unmarshal(body, &lenient); err != nil {
			t.Fatalf("encoding/json refuses what we accept: %v", err)
		}
		if lenient.Method != call.Wire || !bytes.Equal(lenient.ID, call.ID) {
			t.Errorf("another reader sees method %q and id %s", lenient.Method, lenient.ID)
		}
		checkTargets(t, call, lenient.Params)
		if _, _, err := call.Naming(""); err != nil && err.Reason != ReasonSkill {
			t.Errorf("naming: %v", err)
		}
	})
}

// checkTargets compares task, context and the parts.
func checkTargets(t *testing.T, call Call, params []byte) {
	if !call.Method.IsMessage() || call.Method.IsExtension() {
		return
	}
	var lenient struct {
		Message struct {
			TaskID, ContextID string
			Parts             []struct {
				Text *string
				Data *json.RawMessage
			}
		}
		Configuration struct {
			TaskPushNotificationConfig *struct{ URL string }
		}
	}
	if json.Unmarshal(params, &lenient) != nil {
		return // it refuses types that we leave to the agent
	}
	if m := lenient.Message; m.TaskID != "" && m.TaskID != call.Task || m.ContextID != "" && m.ContextID != call.Context {
		t.Errorf("another reader sees task %q and context %q; we %q and %q", m.TaskID, m.ContextID, call.Task, call.Context)
	}
	if p := lenient.Configuration.TaskPushNotificationConfig; p != nil && (call.Push == nil || p.URL != "" && p.URL != call.Push.URL) {
		t.Errorf("another reader sees a push configuration; we %v", call.Push)
	}
	data := 0
	for _, p := range lenient.Message.Parts {
		if p.Text != nil && !call.Message.HasText {
			t.Error("another reader sees text")
		}
		if p.Data == nil || string(*p.Data) == "null" {
			continue
		}
		var named struct{ Skill string }
		if json.Unmarshal(*p.Data, &named) == nil && named.Skill != "" {
			if s, _ := call.Message.DataParts[data].Get("skill"); !s.Equal(powerbox.String(named.Skill)) {
				t.Errorf("another reader sees skill %q", named.Skill)
			}
		}
		data++
	}
}

// No card that is written leads anywhere but to the public URL, in whatever
// case a client reads it.
func FuzzRewriteCard(f *testing.F) {
	files, err := os.ReadDir("testdata/card")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile("testdata/card/" + file.Name())
		if err != nil {
			f.Fatal(err)
		}
		_, card, _ := strings.Cut(string(raw), "-- card --\n")
		card, _, _ = strings.Cut(card, "-- rewrite --\n")
		f.Add([]byte(card))
	}
	const public = "https://gate.example/a"
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := RewriteCard(raw, Rewrite{PublicURL: public, LegacyMember: true})
		if err != nil {
			return
		}
		var lenient struct {
			URL                                       *string
			SupportedInterfaces, AdditionalInterfaces []struct{ URL string }
			Signatures                                []any
		}
		if json.Unmarshal(got, &lenient) != nil && !json.Valid(got) {
			t.Fatalf("not JSON: %s", got)
		}
		if lenient.URL != nil && *lenient.URL != public || lenient.Signatures != nil {
			t.Errorf("URL or signatures remain: %s", got)
		}
		for _, i := range append(lenient.SupportedInterfaces, lenient.AdditionalInterfaces...) {
			if i.URL != public {
				t.Errorf("leads to %q: %s", i.URL, got)
			}
		}
		again, err := RewriteCard(got, Rewrite{PublicURL: public, LegacyMember: true})
		if err != nil || !bytes.Equal(again, got) {
			t.Errorf("not stable: %v\n%s\n%s", err, got, again)
		}
	})
}

// Pieces do not matter, and no event is longer than the limit.
func FuzzFrames(f *testing.F) {
	f.Add(stream, 3)
	f.Add("data: x\r\n\r\n", 1)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 1 {
			return
		}
		whole, pieces := split(s, len(s)+1, 40), split(s, n, 40)
		if strings.Join(whole, "|") != strings.Join(pieces, "|") {
			t.Errorf("whole %q, in pieces of %d %q", whole, n, pieces)
		}
		for _, payload := range whole {
			if len(payload) > 40 {
				t.Errorf("payload of %d bytes", len(payload))
			}
		}
	})
}

// Nothing of others is left, and an unfiltered answer comes out the same.
func FuzzFilterTasks(f *testing.F) {
	for _, c := range cases[filterCase](f, "filter.json") {
		f.Add([]byte(c.Response))
	}
	f.Fuzz(func(t *testing.T, response []byte) {
		got, err := FilterTasks(response, func(r TaskRef) bool { return r.Task == "mine" })
		if err != nil {
			return
		}
		type answer struct {
			Tasks []struct{ ID string }
		}
		var lenient struct {
			answer
			JSONRPC any
			Result  answer
		}
		if err := json.Unmarshal(got, &lenient); err != nil && !json.Valid(got) {
			t.Fatalf("not JSON: %s", got)
		}
		tasks := lenient.Tasks
		if o, _ := readObject(response); o.get("result") != nil {
			tasks = lenient.Result.Tasks
		}
		for _, task := range tasks {
			if task.ID != "mine" {
				t.Errorf("task %q is left: %s", task.ID, got)
			}
		}
	})
}

func FuzzLearn(f *testing.F) {
	type learnCase struct{ Response json.RawMessage }
	for _, c := range cases[learnCase](f, "learn.json") {
		f.Add([]byte(c.Response))
	}
	f.Fuzz(func(t *testing.T, response []byte) {
		for _, ref := range Learn(response) {
			if ref == (TaskRef{}) {
				t.Error("learned nothing and reported it")
			}
		}
	})
}

// What a strict decoder has read is taken apart as a reader that checks takes it.
func FuzzApart(f *testing.F) {
	for _, c := range cases[decodeCase](f, "decode.json") {
		f.Add(c.bytes())
	}
	for _, text := range []string{`{}`, ` { } `, "{\"a\":1,\n\"b\" : [1,{\"]\":\"}\"}] ,\"c\\u0064\":\"\\\\\",\"e\":\"\\\"\",\"f\":true}", `[1]`, `"{"`, `{"a":{}}`, `{"a":-1.5e3 }`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, gotErr := apart(raw) // a text that is no JSON must not make it fail otherwise
		if _, err := powerbox.DecodeValue(raw, testLimits); err != nil {
			return
		}
		want, wantErr := readObject(raw)
		if (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("%v; a reader that checks: %v", gotErr, wantErr)
		}
		if len(got) != len(want) {
			t.Fatalf("%d members; want %d", len(got), len(want))
		}
		for i, m := range got {
			w := want[i]
			if m.name != w.name || !bytes.Equal(m.key, w.key) || !bytes.Equal(m.value, w.value) || m.start != w.start || m.end != w.end {
				t.Errorf("member %d is %+v; want %+v", i, m, w)
			}
		}
	})
}
