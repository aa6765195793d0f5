package main

import (
	"fmt"
	"strings"
)

// configuration is powerbox.yaml of the bank.
func configuration(o options, data, backend, statement, secret string) string {
	var users strings.Builder
	for _, name := range strings.Split(o.users, ",") {
		fmt.Fprintf(&users, "    - {name: %s, token: session-of-%s}\n", name, name)
	}
	return fmt.Sprintf(template, o.listen, data, users.String(), backend, o.session, o.maximum, o.absolute, secret, statement)
}

// template is powerbox.yaml with its blanks.
const template = `listen: %[1]s
issuer:
  url: http://%[1]s
  directory: %[2]q
identity:
  dev:
%[3]sagents:
  - id: bank
    upstream: %[4]q
    mode: require
    agent_auth:
      provider_name: bank
      description: A bank to try agents against. Accounts, transfers and statements.
      modes: [delegated, autonomous]
      administrators: ["user:root"]
      session_ttl: %[5]s
      max_lifetime: %[6]s
      absolute_lifetime: %[7]s
      poll_interval: 1s
      unknown_hosts: 0
      questions: 0
      requests: 0
      introspection_token: %[8]s
      capabilities:
        - name: check_balance
          description: See the balance of one account
          sensitivity: read
          default: true
          public: true
          input:
            type: object
            required: [account_id]
            additionalProperties: false
            properties: {account_id: {type: string, description: The account}}
          output:
            type: object
            properties: {account_id: {type: string}, balance: {type: number}, currency: {type: string}}
        - name: list_accounts
          description: List all accounts
          sensitivity: read
          public: true
          output: {type: array, items: {type: object}}
        - name: transfer_money
          description: Move money to another account
          sensitivity: write
          public: true
          constraints: {amount: {max: 10000}}
          input:
            type: object
            required: [amount, currency, destination_account]
            additionalProperties: false
            properties:
              amount: {type: number, exclusiveMinimum: 0}
              currency: {type: string}
              destination_account: {type: string}
        - name: slow_job
          description: Prepare a report, which takes a while
          sensitivity: read
          public: true
        - name: ticker
          description: Follow the exchange rate
          sensitivity: read
          public: true
        - name: statement
          description: Read the account's statement
          sensitivity: read
          public: true
          location: %[9]q
`
