package action

import "github.com/powerbox-project/powerbox/evidence"

// What programs ask the gate about, and what it decides for the Agent Auth Protocol.
var (
	GuardCall    = listed(Call, "guard.call")
	GuardMessage = listed(Call, "guard.message")
	GuardTool    = listed(Call, "guard.tool") // a tool call of a coding agent
	Handoff      = listed(Call, evidence.ActionHandoff)
	Execute      = listed(Call, "capability.execute")
	PushEvent    = listed(Call, "a2a.push.event")
)

// Capabilities.
var (
	CapabilityRequest   = listed(Request, "capability.request")
	CapabilityAttenuate = listed(Request, "capability.attenuate")
	CapabilityStatus    = listed(Request, "capability.status")
	CapabilityUse       = listed(Request, "capability.use")
	CapabilityOnce      = listed(Request, "capability.once") // for one call that a person approved
	OperatorGrant       = listed(Request, "operator.grant")  // to a caller whose call was denied
	OperatorNarrow      = listed(Request, "operator.narrow") // a narrower one took the place of another
	OperatorKeep        = listed(Request, "operator.keep")   // an operator looked at it, and it stays
	BudgetReserve       = listed(Request, "budget.reserve")
)

// What ends.
var (
	CapabilityRevoke = listed(Revoke, "capability.revoke")
	OperatorRevoke   = listed(Revoke, "operator.revoke")
	OperatorEpoch    = listed(Revoke, "operator.epoch") // all of an agent, holder or principal
	TaskEnd          = listed(Revoke, "task.end")
)

// What operators stop and release.
var (
	OperatorFreeze = listed(Freeze, "operator.freeze")
	OperatorThaw   = listed(Freeze, "operator.thaw")
	OperatorExtend = listed(Freeze, "operator.extend")
)

// Questions to people.
var (
	ApprovalAsk      = listed(Question, "approval.ask")
	ApprovalAnswer   = listed(Question, "approval.answer")
	ApprovalWithdraw = listed(Question, "approval.withdraw")
	ApprovalExpire   = listed(Question, "approval.expire")
	ApprovalAlert    = listed(Question, "approval.alert")
	ApprovalRevoke   = listed(Question, "approval.revoke") // a person took back what their answer gave
)

// Agents and hosts of the Agent Auth Protocol, and what they were granted.
var (
	AgentRegister          = listed(Account, "agent.register")
	AgentRegisterAgain     = listed(Account, "agent.register-again")
	AgentRequestCapability = listed(Account, "agent.request-capability")
	AgentReactivate        = listed(Account, "agent.reactivate")
	AgentRevoke            = listed(Account, "agent.revoke")
	AgentRotateKey         = listed(Account, "agent.rotate-key")
	AgentAskClaim          = listed(Account, "agent.ask-claim")
	AgentClaim             = listed(Account, "agent.claim")
	AgentErase             = listed(Account, "agent.erase")
	AgentForget            = listed(Account, "agent.forget")
	HostInvite             = listed(Account, "host.invite")
	HostEnroll             = listed(Account, "host.enroll")
	HostRegister           = listed(Account, "host.register")
	HostLink               = listed(Account, "host.link")
	HostUnlink             = listed(Account, "host.unlink")
	HostVouch              = listed(Account, "host.vouch")
	HostRevoke             = listed(Account, "host.revoke")
	HostRotateKey          = listed(Account, "host.rotate-key")
	GrantAdd               = listed(Account, "grant.add")
	GrantRevoke            = listed(Account, "grant.revoke")
)

// Persons.
var (
	PersonFreeze  = listed(People, "person.freeze")
	PersonThaw    = listed(People, "person.thaw")
	PersonLogOut  = listed(People, "person.logout")
	PersonRemove  = listed(People, "person.remove")
	PasskeyAdd    = listed(People, "passkey.add")
	PasskeyRemove = listed(People, "passkey.remove")
)

// Keys.
var (
	KeyUse         = listed(Key, evidence.ActionKeyUse)    // the agent began to sign with it
	KeyRotate      = listed(Key, evidence.ActionKeyRotate) // it replaced another
	KeyReplace     = listed(Key, "key.replace")            // an operator replaced a key of the server that was lost
	RecorderEnroll = listed(Key, "recorder.enroll")
	RecorderClose  = listed(Key, "recorder.close")
)

// Remote gateways.
var (
	GatewayToken  = listed(Gateway, "gateway.token")
	GatewayEnroll = listed(Gateway, "gateway.enroll")
	GatewayClose  = listed(Gateway, evidence.ActionGatewayClose)
)

// Changes of the configuration.
var (
	AgentMode    = listed(Settings, "agent.mode")
	ConfigReload = listed(Settings, "config.reload")
)

// The log itself.
var (
	EvidenceErase   = listed(Evidence, "evidence.erase")
	EvidencePeriod  = listed(Evidence, "evidence.period")
	EvidenceArchive = listed(Evidence, "evidence.archive")
	EvidenceSalvage = listed(Evidence, "evidence.salvage") // a damaged spool or journal lost records
	EvidenceGap     = listed(Evidence, evidence.ActionGap) // calls were decided without a record
)

// WebhookRedeliver is another try of a message to a webhook that was given up.
var WebhookRedeliver = listed(Settings, "webhook.redeliver")

// Listings of the registry.
var (
	RegistryRegister = listed(Settings, "registry.register")
	RegistryForget   = listed(Settings, "registry.forget")
	RegistryAccept   = listed(Settings, "registry.accept")
)
