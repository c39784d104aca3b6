// Verifies webhooks with the unmodified library of Standard Webhooks for JavaScript.
//
// Argument: the signing secret. Each line of standard input is a request: {headers, body} as JSON.
// For each, prints a line with its parsed body, or null if its signature is not valid.

import { createInterface } from 'node:readline'
import { Webhook } from 'standardwebhooks'

const webhook = new Webhook(process.argv[2])
for await (const line of createInterface({ input: process.stdin })) {
  const { headers, body } = JSON.parse(line)
  let content = null
  try {
    content = webhook.verify(body, headers)
  } catch {
    // It is not valid.
  }
  console.log(JSON.stringify(content))
}
