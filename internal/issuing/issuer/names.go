package issuer

import (
	"fmt"
	"strings"

	"github.com/powerbox-project/powerbox"
)

// Reserved operations stand for what A2A itself does with a task. No skill may
// map to them; the issuer adds the first three to every capability.
const (
	OperationMessage    = "a2a.message"
	OperationTaskRead   = "a2a.task.read"
	OperationTaskCancel = "a2a.task.cancel"
	OperationPush       = "a2a.push"
	OperationCard       = "a2a.card"
	OperationCapability = "a2a.capability"
)

// Qualify returns the name that an operation of a grant has in the algebra:
// agent, grant and operation joined by '/', so that the operations of two
// agents can never be taken for each other (SEP-25).
func Qualify(agent, grant, operation string) string {
	return agent + "/" + grant + "/" + operation
}

// unqualify returns the operation's name as in the wire, and false where
// the qualified name belongs to another agent or grant.
func unqualify(agent, grant, qualified string) (string, bool) {
	return strings.CutPrefix(qualified, agent+"/"+grant+"/")
}

func operation(name string) (powerbox.Operation, error) {
	op, err := powerbox.ParseOperation(name)
	if err != nil {
		return op, fmt.Errorf("operation %q: %w", name, err)
	}
	return op, nil
}

// reservedOperations returns the operations that an agent's gateway handles.
func reservedOperations() []string {
	return []string{OperationMessage, OperationTaskRead, OperationTaskCancel, OperationPush, OperationCard, OperationCapability}
}
