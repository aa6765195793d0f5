package link

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"
)

// TestATK151_RecordsAreSentAsTheyStand: the server takes a record in its one form alone.
func TestATK151_RecordsAreSentAsTheyStand(t *testing.T) {
	record := []byte("{\"a\":\"R&D <b> \u2028\u2029\"}")
	body, err := encode(Shipment{Records: []json.RawMessage{record}})
	if err != nil || !bytes.Contains(body, record) || bytes.HasSuffix(body, []byte("\n")) {
		t.Errorf("ATK-151 %q, %v; want %q in it", body, err, record)
	}
}

// TestATK153_AnswersAreKeptAsTheyStand: an answer takes no more room in the book than it has.
func TestATK153_AnswersAreKeptAsTheyStand(t *testing.T) {
	name := filepath.Join(t.TempDir(), "held")
	b, err := OpenBook(name)
	if err != nil {
		t.Fatal(err)
	}
	answer := []byte(`{"a":"<<<<<<<<"}`)
	if err := b.Put(HeldEntry{Task: "task_pb_1", State: HeldDone, Result: &HeldResult{Answer: answer}}); err != nil {
		t.Fatal(err)
	}
	e, ok, err := b.Get("task_pb_1")
	if err != nil || !ok || !bytes.Equal(e.Result.Answer, answer) {
		t.Errorf("ATK-153 %t %v: %+v; want %s", ok, err, e.Result, answer)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}
