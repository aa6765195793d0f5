package capability

import (
	"encoding/json"
	"fmt"
	"strings"
)

// part is a piece of what an agent says, in the form of 1.0 or of 0.3.
type part struct {
	Text string          `json:"text"`
	Data json.RawMessage `json:"data"`
	URL  string          `json:"url"`
	Name string          `json:"filename"`
}

// said is what an agent says at once.
type said struct {
	Parts []part `json:"parts"`
}

// task is a task as far as people ask for it.
type task struct {
	ID     string `json:"id"`
	Status struct {
		State   string `json:"state"`
		Message said   `json:"message"`
	} `json:"status"`
	Artifacts []said `json:"artifacts"`
}

// answerText is the answer to a call as people read it: what the agent says,
// and of a task which one it is and how it stands. What has no such form is
// given as it is.
func answerText(result json.RawMessage) string {
	var a struct {
		said           // 0.3 has the message itself
		task           // and the task itself
		Message said   `json:"message"`
		Task    task   `json:"task"`
		Content []part `json:"content"` // of a tool of an MCP server
	}
	if err := json.Unmarshal(result, &a); err != nil {
		return string(result)
	}
	lines := append(a.said.lines(), a.Message.lines()...)
	lines = append(lines, said{a.Content}.lines()...)
	for _, t := range []task{a.task, a.Task} {
		if t.Status.State == "" {
			continue
		}
		state := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(t.Status.State, "TASK_STATE_"), "_", " "))
		lines = append(lines, fmt.Sprintf("task %s: %s", t.ID, state))
		lines = append(lines, t.Status.Message.lines()...)
		for _, artifact := range t.Artifacts {
			lines = append(lines, artifact.lines()...)
		}
	}
	if len(lines) == 0 {
		return string(result)
	}
	return strings.Join(lines, "\n")
}

func (s said) lines() []string {
	var lines []string
	for _, p := range s.Parts {
		switch {
		case p.Text != "":
			lines = append(lines, p.Text)
		case len(p.Data) > 0:
			lines = append(lines, string(p.Data))
		case p.URL != "":
			lines = append(lines, p.URL)
		case p.Name != "":
			lines = append(lines, "file "+p.Name)
		}
	}
	return lines
}
