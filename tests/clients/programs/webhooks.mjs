// Verifies webhooks with the unmodified library of Standard Webhooks for JavaScript.
//
// Argument: the signing secret. Standard input: a JSON list of {headers, body}. Prints a JSON list
// with the parsed body of each, or null if its signature is not valid.

import { readFileSync } from 'node:fs'
import { Webhook } from 'standardwebhooks'

const webhook = new Webhook(process.argv[2])
const verified = JSON.parse(readFileSync(0, 'utf8')).map(({ headers, body }) => {
  try {
    return webhook.verify(body, headers)
  } catch {
    return null
  }
})
console.log(JSON.stringify(verified))
