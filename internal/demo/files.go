package demo

// demoConfiguration is powerbox.yaml of the demo.
const demoConfiguration = `listen: @LISTEN
issuer:
  url: @BASE
identity:
  callers:
    - {agent: user, key: @USER}
    - {agent: orchestrator, key: @ORCHESTRATOR}
    - {agent: summariser, key: @SUMMARISER}
  guards:
    - {name: town, token_file: guard.token, agents: [user, orchestrator, summariser]}
  dev:
    - {name: alice, token: @TOKEN, groups: [finance]}
    - {name: olivia, token: demo-session-of-the-operator-olivia}
approvals:
  operators: ["user:olivia"]
agents:
  - {id: documents, upstream: "@UP_DOCUMENTS", mode: require, required: [documents:read/retrieve]}
  - {id: mail, upstream: "@UP_MAIL", mode: require, required: [mail:send/send]}
  - {id: summariser, upstream: "@UP_SUMMARISER", mode: require, required: [summary:make/summarize]}
  - {id: orchestrator, upstream: "@UP_ORCHESTRATOR", mode: require, required: [report:make/report]}
offers:
  documents:
    - {id: documents:read, description: Read documents that the user may access, operations: [retrieve, search, list, follow], maximum_lifetime: 10m}
    - {id: documents:write, description: Create and delete documents, operations: [create, delete], requires: [documents:read]}
  mail:
    - {id: mail:send, description: Send mail for the company, operations: [send]}
  summariser:
    - {id: summary:make, description: Summarise a document, operations: [summarize]}
  orchestrator:
    - {id: report:make, description: Have a report summarised, operations: [report]}
skills:
  documents:
    - {skill: retrieve_document, grant: documents:read, operation: retrieve, handle: resourceHandle, effect: read}
    - {skill: search_documents, grant: documents:read, operation: search, effect: read}
    - {skill: list_documents, grant: documents:read, operation: list, effect: read}
    - {skill: follow_document, grant: documents:read, operation: follow, handle: resourceHandle, effect: read}
    - {skill: create_document, grant: documents:write, operation: create}
    - {skill: delete_document, grant: documents:write, operation: delete, handle: resourceHandle}
  mail:
    - {skill: send_mail, grant: mail:send, operation: send}
  summariser:
    - {skill: summarize, grant: summary:make, operation: summarize, effect: read}
  orchestrator:
    - {skill: report, grant: report:make, operation: report, effect: read}
scopes:
  user:
    documents: [documents:read/follow, documents:read/retrieve]
    orchestrator: [report:make/report]
  orchestrator:
    documents: [documents:read/retrieve, documents:read/search]
    summariser: [summary:make/summarize]
  summariser:
    documents: [documents:read/retrieve]
resources:
  documents:
    items:
@ITEMS
policies: [demo.cedar]
`

// demoPolicies is what the demo's user may do: finance reads reports, and has
// them summarised. The user did not permit mail.
const demoPolicies = `@description("finance reads reports")
permit(principal in Group::"finance", action in Action::"documents/documents:read", resource in Collection::"documents/reports");

@description("those of other quarters when a person says so")
@approval("human")
permit(principal in Group::"finance", action in Action::"documents/documents:read", resource in Collection::"documents/reports")
when { resource.attributes.quarter != "2025-Q1" };

@description("and searches among them")
permit(principal in Group::"finance", action == Action::"documents/documents:read/search", resource == Agent::"documents");

permit(principal in Group::"finance", action in Action::"summariser/summary:make", resource == Agent::"summariser");

permit(principal in Group::"finance", action in Action::"orchestrator/report:make", resource == Agent::"orchestrator");
`
