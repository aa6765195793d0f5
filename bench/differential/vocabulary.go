package main

import "github.com/powerbox-project/powerbox/holder"

// The values that a mutation puts instead of a member's value, or beside it, by
// the member's name. Each would change the effect of the call if a reader accepted
// it.
const (
	wideCall    = `{"skill":"export","arguments":{"dry_run":false,"collection":"secret"}}`
	searchCall  = `{"skill":"search","arguments":{"query":"everything"}}`
	wideMembers = `{"` + holder.ExtensionURI + `":{"capabilityId":"` + wideCapability + `"}}`
	compatFlag  = `{"data_part_compat":true}`
)

var dataValues = []string{
	wideCall, searchCall, `{"value":` + wideCall + `}`, `{"data":` + wideCall + `}`, `{"fields":{"skill":{"stringValue":"export"}}}`, `{"value":{"value":` + wideCall + `}}`,
	`[` + wideCall + `]`, `"export"`, `{"Skill":"export"}`, `{"skill":{"value":"export"}}`, `{"skill":["export"]}`, `{"skill":"export"}`, `{"skill":"export","arguments":null}`,
}

var partValues = []string{
	`{"text":"export everything"}`, `{"kind":"text","text":"export everything"}`, `{"data":` + wideCall + `}`, `{"kind":"data","data":` + wideCall + `}`,
	`{"data":{"data":` + wideCall + `}}`, `{"data":{"value":` + wideCall + `},"metadata":` + compatFlag + `}`, `{"kind":"data","data":{"value":` + wideCall + `},"metadata":` + compatFlag + `}`,
	`{"data":{"data":{"value":` + wideCall + `}},"metadata":` + compatFlag + `}`, `{"raw":"ZXhwb3J0"}`, `{"url":"https://example.org/x"}`, `{"file":{"fileWithBytes":"ZXhwb3J0"}}`,
	`{"kind":"file","file":{"bytes":"ZXhwb3J0","name":"x"}}`, `{"content":{"$case":"data","value":` + wideCall + `}}`, `{"part":{"data":` + wideCall + `}}`, `{"root":{"kind":"data","data":` + wideCall + `}}`, `{}`, `null`,
}

var messageValues = []string{
	`{"messageId":"` + caseNumber + `","role":"ROLE_USER","parts":[{"data":` + wideCall + `}]}`,
	`{"kind":"message","messageId":"` + caseNumber + `","role":"user","parts":[{"kind":"data","data":` + wideCall + `}]}`,
	`{"messageId":"` + caseNumber + `","role":"ROLE_USER","content":[{"data":{"data":` + wideCall + `}}]}`,
	`{"messageId":"` + caseNumber + `","role":"ROLE_USER","taskId":"` + foreignTask + `","contextId":"` + foreignContext + `","parts":[{"text":"x"}]}`,
}

var (
	taskValues    = []string{`"` + foreignTask + `"`, `"` + ownTask + `"`, `""`, `"tasks/` + foreignTask + `"`, `["` + foreignTask + `"]`, `null`, `7`}
	contextValues = []string{`"` + foreignContext + `"`, `"` + ownContext + `"`, `""`, `["` + foreignContext + `"]`, `null`}
	metaValues    = []string{
		compatFlag, wideMembers, `{"` + holder.ExtensionURI + `":{"capabilityId":"` + narrowCapability + `","skill":"search"}}`, `{"skill":"export","arguments":{"dry_run":false}}`,
		`{"` + holder.ExtensionURI + `":{"skill":"export","arguments":{"collection":"secret"}}}`, `{"taskId":"` + foreignTask + `"}`, `{}`, `null`, `[]`,
	}
	argumentsValues = []string{
		`{"dry_run":false,"collection":"secret"}`, `{"dry_run":true,"collection":"public"}`, `{"collection":"secret"}`, `{}`, `null`, `[]`, `"{}"`, `{"value":{"dry_run":false}}`, `{"dry_run":{"value":false},"collection":"public"}`,
	}
	stringValues = []string{`"secret"`, `"Public"`, `"public "`, `"public\u0000"`, `"pub\u006cic"`, `"\ud800"`, `"public\ufeff"`, `["public"]`, `{"value":"public"}`, `""`, `null`, `"pυblic"`, `true`, `0`}
	numberValues = []string{
		`0`, `-0`, `1`, `1.0`, `10e-1`, `1e0`, `1E+2`, `100000000000000000000`, `9007199254740993`, `9007199254740992`, `-9007199254740993`, `0.1`, `0.10000000000000000555`, `1e400`, `-1e400`, `1e-400`,
		`5e-324`, `1.7976931348623157e308`, `00`, `+1`, `.5`, `1.`, `0x10`, `NaN`, `Infinity`, `1_000`, `"1"`, `0.30000000000000004`, `123456789012345678901234567890`, `1e-7`, `1e21`, `4.35`,
	}
	kindValues = []string{`"text"`, `"data"`, `"file"`, `"message"`, `"task"`, `""`, `null`, `["data"]`}
)

// alternatives are values by the name of a member, in lower case and without
// underscores.
var alternatives = map[string][]string{
	"skill": {`"export"`, `"search"`, `"delete"`, `"Export"`, `"export\u0000"`, `["export"]`, `{"value":"export"}`, `null`, `""`, `"ex\u0070ort"`}, "arguments": argumentsValues,
	"dryrun": {`false`, `true`, `"true"`, `1`, `0`, `null`, `[true]`, `{"value":true}`, `"false"`}, "collection": stringValues, "query": stringValues, "limit": numberValues,
	"taskid": taskValues, "task": taskValues, "id": taskValues, "contextid": contextValues, "context": contextValues, "tenant": {`"t2"`, `""`, `["t2"]`, `null`, `"t2/tasks"`},
	"text": {`"export everything"`, `""`, `null`, `{}`}, "data": dataValues, "value": dataValues, "parts": nil, "content": nil, "message": messageValues, "request": messageValues, "msg": messageValues,
	"metadata": metaValues, "meta": {`{"progressToken":1}`, `{"progressToken":"p"}`, wideMembers, `{}`, `null`}, "capabilityid": {`"` + wideCapability + `"`, `"` + narrowCapability + `"`, `null`, `""`},
	"kind": kindValues, "type": kindValues, "role": {`"ROLE_USER"`, `"user"`, `"ROLE_AGENT"`, `1`, `2`, `"agent"`}, "raw": {`"ZXhwb3J0"`, `""`, `null`}, "url": {`"https://example.org/x"`, `""`, `null`},
	"file": {`{"bytes":"ZXhwb3J0"}`, `{"uri":"https://example.org/x"}`, `{"fileWithUri":"https://example.org/x"}`}, "method": {`"SendMessage"`, `"message/send"`, `"GetTask"`, `"ListTasks"`, `"tools/call"`, `"CancelTask"`, `"tools/list"`, `"resources/read"`},
	"params": nil, "jsonrpc": {`"2.0"`, `"1.0"`, `2.0`, `null`}, "name": {`"export"`, `"search"`, `"brief"`, `"Export"`, `"export "`, `null`, `["export"]`}, "uri": {`"file:///secret"`, `"file:///public"`, `"FILE:///public"`, `"file:///public/../secret"`, `"file:///%70ublic"`},
	"proto":       {wideCall, `{"skill":"export"}`, `{"arguments":{"dry_run":false,"collection":"secret"}}`, `{"dry_run":false,"collection":"secret"}`, `{"taskId":"` + foreignTask + `","tenant":"t2"}`, `null`},
	"constructor": {`{"prototype":{"skill":"export"}}`, `null`}, "messageid": {`"` + caseNumber + `"`, `""`, `null`, `7`}, "referencetaskids": {`["` + foreignTask + `"]`, `[]`, `"` + foreignTask + `"`},
	"extensions": {`["https://example.org/x"]`, `["` + holder.ExtensionURI + `"]`}, "configuration": {`{"blocking":true}`, `{"acceptedOutputModes":["text/plain"]}`, `{"historyLength":3}`, `{"returnImmediately":false}`},
	"filename": {`"export everything"`}, "mediatype": {`"export everything"`, `"application/json"`}, "cursor": {`"x"`, `null`}, "historylength": numberValues, "blocking": {`true`, `false`}, "datapartcompat": {`true`, `"true"`, `1`},
	"item": dataValues, "case": kindValues, "fields": dataValues, "struct": dataValues, "ref": taskValues, "hasownproperty": {`true`}, "tostring": {`"x"`}, "inputresponses": {`{}`}, "requeststate": {`"x"`}, "progresstoken": {`1`, `"x"`, `null`},
}

// names are all members that some reader knows, in the spellings that some reader
// knows them by.
var names = []string{
	"skill", "arguments", "dry_run", "dryRun", "collection", "query", "limit", "taskId", "task_id", "task", "id", "contextId", "context_id", "tenant", "text", "data", "value", "parts", "part", "content",
	"message", "request", "msg", "metadata", "_meta", "capabilityId", "capability_id", "kind", "type", "role", "raw", "url", "file", "method", "params", "jsonrpc", "name", "uri", "__proto__", "constructor",
	"messageId", "message_id", "referenceTaskIds", "reference_task_ids", "extensions", "configuration", "filename", "mediaType", "media_type", "cursor", "historyLength", "history_length", "blocking", "data_part_compat",
	"item", "$case", "case", "fields", "struct", "ref", "hasOwnProperty", "toString", "inputResponses", "requestState", "progressToken", "unknown",
}
