import forgeResolver from '@forge/resolver';
import { createEds } from './eds.js';

const eds = createEds({
  url: process.env.EDS_URL,
  key: process.env.EDS_KEY,
  users: process.env.EDS_USERS ?? 'site',
  salt: process.env.EDS_SALT,
  events: ['Reports_Viewed', 'Report_Created', 'Report_Shared'],
});

// In an ES module, the default import of this package is the package, and not its class.
const Resolver = forgeResolver.default ?? forgeResolver;
const resolver = new Resolver();
resolver.define('eds', eds.resolver);
resolver.define('createReport', async ({ payload, context }) => {
  const report = { id: Date.now(), title: String(payload.title ?? 'Untitled') };
  // What happens on the server is tracked there.
  await eds.track(context, 'Report_Created');
  return report;
});

export const handler = resolver.getDefinitions();
export const deliver = eds.consumer;
export const installed = eds.lifecycle;
export const uninstall = eds.preUninstall;
export const snapshot = eds.snapshot();
