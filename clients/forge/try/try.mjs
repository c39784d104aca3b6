/**
 * Runs the server part of the sample on this machine: somebody at each of three sites uses it.
 *
 *     npm install
 *     EDS_URL=http://127.0.0.1:8000 EDS_KEY=edk_… node try.mjs
 *
 * The packages of Forge are real. What Atlassian's servers do is faked by `../test/platform.mjs`:
 * they call the resolver, keep the queue, and deliver it.
 */

import { copyFileSync, mkdirSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { installContextOf, Platform } from '../test/platform.mjs';

// As the guide says: the helper is a file of the app.
const here = (path) => new URL(path, import.meta.url);
mkdirSync(here('./app/'), { recursive: true });
copyFileSync(here('../eds.js'), here('./app/eds.js'));
copyFileSync(here('../sample/src/index.js'), here('./app/index.js'));
const platform = new Platform().install();
const app = await import('./app/index.js');

if (!process.env.EDS_URL || !process.env.EDS_KEY) {
  console.error('Set EDS_URL and EDS_KEY.');
  process.exit(2);
}

// The same sites each time.
const siteNamed = (name) => createHash('sha256').update(name).digest('hex').slice(0, 32)
  .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
const use = (site, functionKey, payload) => app.handler(
  { call: { functionKey, payload }, context: {} },
  { installContext: installContextOf(site), principal: { accountId: `somebody at ${site}` } },
);

const reports = { acme: 5, globex: 2, initech: 1 };
for (const [name, number] of Object.entries(reports)) {
  const site = siteNamed(name);
  await use(site, 'eds', { events: [{ event: 'Reports_Viewed' }] });
  for (let report = 1; report <= number; report += 1) {
    await use(site, 'createReport', { title: `Report ${report}` });
  }
  console.log(`${site}: ${number + 1} events`);
}
const again = await platform.deliver(app.deliver, { most: 50 });
console.log(again.length || platform.jobs.length
  ? `The service did not take everything: ${process.env.EDS_URL} is not there, or refuses.`
  : `Delivered. ${process.env.EDS_URL}/admin/ has the accounts and their scores in seconds.`);
process.exit(again.length ? 1 : 0);
