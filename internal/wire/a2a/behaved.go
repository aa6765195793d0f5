package a2a

// Behaved is the behaviour of an agent as a peer that an answer, or an event of a
// stream, shows, beyond the tasks in it (CARD-12).
type Behaved struct {
	Partial bool // a Message with partial: true
	Paused  bool // a task that is paused
}

// BehaviourOf reads it from a JSON-RPC response or the value inside one, of either
// version. It is tolerant: it skips members that it does not understand.
func BehaviourOf(response []byte) (b Behaved) {
	if !mayName(response, "partial", "PAUSED", "paused") {
		return Behaved{} // nearly all of them
	}
	o, err := readObject(response)
	if err != nil {
		return Behaved{}
	}
	if result := o.get("result"); result != nil {
		if o, err = apart(result); err != nil {
			return Behaved{}
		}
	}
	message, err := apart(o.get("message"))
	b.Partial = err == nil && string(message.get("partial")) == "true" || o.text("kind") == "message" && string(o.get("partial")) == "true"
	for _, of := range []rawObject{o, member(o, "task"), member(o, "statusUpdate")} {
		switch member(of, "status").text("state") {
		case "TASK_STATE_PAUSED", "paused":
			b.Paused = true
		}
	}
	return b
}

// member returns a member that is an object, nil where it is none.
func member(o rawObject, name string) rawObject {
	inner, err := apart(o.get(name))
	if err != nil {
		return nil
	}
	return inner
}
