// A Forge app with the kit, on a fake of the platform: people at several sites click, and its queue
// delivers at least once, until everything has arrived.
//
// Arguments: the folder of the kit, the service's address, the ingestion key, and how many clicks.
// Standard input is a JSON array of Cloud IDs. Exit status 1 if the kit warned of anything.

import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'

const [folder, url, key, clicks] = process.argv.slice(2)
const { createEds } = await import(pathToFileURL(`${folder}/eds.js`))
const { contextOf, Platform } = await import(pathToFileURL(`${folder}/test/platform.mjs`))

const sites = JSON.parse(await text(process.stdin))
const warnings = []
const platform = new Platform().install()
const eds = createEds({ url, key, users: 'hashed', salt: 'sixteen characters or more', warn: (each) => warnings.push(each) })

let isOver = false
const queue = (async () => {
  while (!isOver || platform.jobs.length) {
    await platform.deliver(eds.consumer, { twice: 0.2, pause: 300 })
    await sleep(50)
  }
})()
for (let click = 0; click < Number(clicks); click += 1) {
  for (const [index, site] of sites.entries()) {
    const context = contextOf(site, { accountId: `person ${click % 3}`, cloudId: sites[(index + 1) % sites.length] })
    await eds.track(context, `Click_${click}`)
  }
  await sleep(20)
}
isOver = true
await queue
console.log(warnings.join('\n'))
process.exit(warnings.length ? 1 : 0)
