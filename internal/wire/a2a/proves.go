package a2a

import "github.com/powerbox-project/powerbox"

// The operations that stand for A2A's own work on a task (design, section 2). No skill
// maps to them.
const (
	OperationMessage    = "a2a.message"
	OperationTaskRead   = "a2a.task.read"
	OperationTaskCancel = "a2a.task.cancel"
	OperationPush       = "a2a.push"
	OperationCard       = "a2a.card"
)

// Operation is the reserved operation that a call of the method needs, beside those that
// a message names: a2a.message for messages, and for methods that only configuration
// knows.
func (m Method) Operation() string {
	switch m {
	case GetTask, SubscribeToTask, ListTasks:
		return OperationTaskRead
	case CancelTask:
		return OperationTaskCancel
	case CreatePushConfig, GetPushConfig, ListPushConfigs, DeletePushConfig:
		return OperationPush
	case GetExtendedCard:
		return OperationCard
	default:
		return OperationMessage
	}
}

// Proven has the subjects that the proof of a call must name.
type Proven struct {
	Skill     string // that the call names and the agent maps; "" where it is about none
	Operation string
	Arguments powerbox.Value
}

// Proves derives the subject of a call's proof, as the gateway in front of the agent
// does. It is the operation of the skill that the call or its URL names, with its
// arguments. Without a skill it is the reserved operation for the call's work on the
// task. operation returns the operation of a skill, "" for none.
func (c Call) Proves(urlSkill string, operation func(skill string) string) (Proven, *Error) {
	task := c.TaskArguments()
	if !c.Method.IsMessage() && c.Method != SkillInvoke {
		return Proven{Operation: c.Method.Operation(), Arguments: task}, nil
	}
	named, found, ambiguous := c.Naming(urlSkill)
	if ambiguous != nil {
		return Proven{}, ambiguous
	}
	if found {
		if op := operation(named.Skill); op != "" {
			return Proven{named.Skill, op, named.Arguments}, nil
		}
	}
	if c.Push != nil {
		return Proven{Operation: OperationPush, Arguments: task}, nil
	}
	return Proven{Operation: OperationMessage, Arguments: task}, nil
}

// TaskArguments are the arguments of the reserved operations, by which a
// capability can be bound to a task. Where the call names a tenant that is one of
// them: a token that is bound to a task, and says nothing of tenants, is one for
// the agent's tasks in none (ADR 96).
func (c Call) TaskArguments() powerbox.Value {
	var ms []powerbox.Member
	if c.Tenant != "" {
		ms = append(ms, powerbox.Member{Name: "tenant", Value: powerbox.String(c.Tenant)})
	}
	if c.Task != "" {
		ms = append(ms, powerbox.Member{Name: "task", Value: powerbox.String(c.Task)})
	}
	if c.Context != "" {
		ms = append(ms, powerbox.Member{Name: "context", Value: powerbox.String(c.Context)})
	}
	return powerbox.Object(ms...)
}
