/** What the kit sends, when, and as whom. With the platform's real packages: `node --test`. */

import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import Resolver from '@forge/resolver';
import { privacy } from '@forge/api';
import { createEds, siteOf } from '../eds.js';
import { createTracker } from '../eds-ui.js';
import { peopleIn } from '../eds-people.js';
import { contextOf, FakeService, installContextOf, OTHER_SITE, Platform, SITE } from './platform.mjs';

const KEY = 'edk_a-key-of-its-own';
const SALT = 'sixteen characters or more';
const ACCOUNT = contextOf().accountId;
const EVENTS = ['Report_Created', 'Dashboard_Viewed'];
const ResolverClass = Resolver.default ?? Resolver;

let platform;
let service;
let warnings;

beforeEach(async () => {
  platform = new Platform().install();
  service = await new FakeService().start();
  warnings = [];
});

afterEach(() => service.stop());

const eds = (more = {}) => createEds({
  url: service.url, key: KEY, events: EVENTS, warn: (text) => warnings.push(text), ...more,
});

const closeTo = (timestamp, time) => assert.ok(Math.abs(Date.parse(timestamp) - time) < 5_000);

// --- Tracking -------------------------------------------------------------------------------------

test('an event arrives with its site as the account, and its user known', async () => {
  const kit = eds();
  await kit.track(contextOf(), 'Report_Created');
  assert.equal(platform.pushes, 1);
  await platform.deliver(kit.consumer);
  const [group, track] = service.messages;
  assert.deepEqual(
    { type: group.type, groupId: group.groupId, userId: group.userId },
    { type: 'group', groupId: SITE, userId: SITE },
  );
  assert.deepEqual(
    { event: track.event, userId: track.userId, groupId: track.context.groupId },
    { event: 'Report_Created', userId: SITE, groupId: SITE },
  );
  assert.equal(service.requests[0].headers.authorization, `Basic ${KEY}`);
});

test('its time and its message id are those of the click, not of the delivery', async () => {
  const kit = eds();
  const clicked = Date.now();
  await kit.track(contextOf(), 'Report_Created');
  service.answers = [503, 503];
  await new Promise((resolve) => setTimeout(resolve, 30));
  await platform.deliver(kit.consumer, { twice: 1, most: 4 });
  const ids = service.requests.flatMap(
    ({ text }) => JSON.parse(text).batch.filter(({ event }) => event).map((each) => each.messageId),
  );
  assert.equal(ids.length, 4);
  assert.equal(new Set(ids).size, 1);
  assert.equal(new Set(service.tracks.map(({ timestamp }) => timestamp)).size, 1);
  assert.ok(Math.abs(Date.parse(service.tracks[0].timestamp) - clicked) < 25);
});

test('many events of one call are one event of the queue', async () => {
  const kit = eds();
  await kit.track(contextOf(), Array(100).fill('Report_Created'));
  assert.deepEqual([platform.pushes, platform.jobs.length], [1, 1]);
  await platform.deliver(kit.consumer);
  assert.equal(service.tracks.length, 100);
  assert.equal(new Set(service.tracks.map(({ messageId }) => messageId)).size, 100);
});

test('more than the queue takes at once are divided, each part with its group', async () => {
  const kit = eds();
  await kit.track(contextOf(), Array(1_000).fill('Report_Created'));
  assert.ok(platform.jobs.length > 1);
  for (const { body } of platform.jobs) {
    assert.ok(Buffer.byteLength(JSON.stringify(body)) < 100_000);
    assert.equal(body.messages[0].type, 'group');
  }
  await platform.deliver(kit.consumer);
  assert.equal(service.tracks.length, 1_000);
});

test('a full queue does not lose events, and does not stop the app', async () => {
  const kit = eds();
  platform.refusals = [429];
  await kit.track(contextOf(), 'Report_Created');
  assert.equal(service.tracks.length, 1);
  platform.refusals = [500];
  service.answers = [503];
  await kit.track(contextOf(), 'Report_Created');
  assert.equal(warnings.length, 1);
});

test('nothing that it exports throws', async () => {
  const kit = eds();
  await service.stop();
  platform.refusals = [500, 500, 500, 500];
  for (const context of [undefined, null, {}, contextOf(), { installContext: 7 }]) {
    await kit.track(context, 'Report_Created');
    await kit.track(context, [null]);
    await kit.resolver({ payload: { events: 'none' }, context });
    await kit.lifecycle(context, context);
    await kit.preUninstall(context, context);
    await kit.snapshot(() => { throw new Error('No reports'); })({ context: { cloudId: SITE } });
    await kit.consumer(context);
    await kit.report();
  }
  service = await new FakeService().start();
});

test('without an address or a key, nothing is sent', async () => {
  for (const missing of [{ url: undefined }, { key: '' }, { users: 'everybody' },
    { users: 'hashed', salt: 'short' }, { users: 'account' }]) {
    const kit = eds(missing);
    await kit.track(contextOf(), 'Report_Created');
    await kit.preUninstall({ context: { cloudId: SITE } });
  }
  assert.deepEqual([platform.pushes, service.requests.length, warnings.length], [0, 0, 5]);
});

// --- Whose events they are ------------------------------------------------------------------------

test('a forged Cloud ID is not read', async () => {
  const kit = eds();
  const resolver = new ResolverClass();
  resolver.define('eds', kit.resolver);
  const call = { functionKey: 'eds', payload: { events: [{ event: 'Report_Created' }] } };
  // What a browser sends, and what the platform knows.
  await resolver.getDefinitions()(
    { call, context: { cloudId: OTHER_SITE, installContext: installContextOf(OTHER_SITE) } },
    { installContext: installContextOf(SITE), principal: { accountId: ACCOUNT } },
  );
  await platform.deliver(kit.consumer);
  assert.equal(service.tracks.length, 1);
  assert.ok(!JSON.stringify(service.messages).includes(OTHER_SITE));
  assert.equal(siteOf({ cloudId: OTHER_SITE }), undefined);
  assert.equal(siteOf({ installContext: `ari:cloud:confluence::site/${SITE}` }), SITE);
  assert.equal(siteOf({ installContext: `ari:cloud:bitbucket::workspace/${SITE}` }), undefined);
});

test('a browser can invent neither names, nor ids, nor users', async () => {
  const kit = eds();
  const id = crypto.randomUUID();
  const { accepted } = await kit.resolver({
    context: contextOf(),
    payload: {
      events: [
        { event: 'Report_Created', id, at: Date.now() - 60_000, userId: 'mallory' },
        { event: 'Money_Stolen', id: crypto.randomUUID() },
        { event: 'Report_Created', id: 'x'.repeat(100_000) },
        { event: 'Dashboard_Viewed', at: Date.now() + 86_400_000 },
        { event: 'Dashboard_Viewed', at: 0 },
        null,
      ],
    },
  });
  assert.equal(accepted, 3);
  await platform.deliver(kit.consumer);
  const [first, ahead, ancient] = service.tracks;
  assert.equal(first.messageId, `${SITE}:${id}`);
  closeTo(first.timestamp, Date.now() - 60_000);
  closeTo(ahead.timestamp, Date.now());
  closeTo(ancient.timestamp, Date.now());
  assert.ok(!JSON.stringify(service.messages).match(/mallory|Money_Stolen/));
});

test('sites, pseudonyms, and accounts are one, two, and two users', async () => {
  const people = { remember: async () => {}, all: async () => [], forget: async () => {} };
  const usersOf = async (options) => {
    service.batches = [];
    service.requests = [];
    const kit = eds(options);
    for (const accountId of [ACCOUNT, '5be24ba3f91c106033269289', ACCOUNT]) {
      await kit.track(contextOf(SITE, { accountId }), 'Report_Created');
    }
    await platform.deliver(kit.consumer);
    return new Set(service.tracks.map(({ userId }) => userId));
  };
  const nobody = () => assert.ok(!service.requests.some(({ text }) => text.includes(ACCOUNT)));
  assert.deepEqual([...(await usersOf({ users: 'site' }))], [SITE]);
  nobody();
  const pseudonyms = await usersOf({ users: 'hashed', salt: SALT });
  assert.equal(pseudonyms.size, 2);
  nobody();
  assert.notDeepEqual(pseudonyms, await usersOf({ users: 'hashed', salt: `${SALT}!` }));
  assert.deepEqual(
    [...(await usersOf({ users: 'account', people }))], [ACCOUNT, '5be24ba3f91c106033269289'],
  );
});

test('customers, anonymous people, and people without a license are one user of the site', async () => {
  const kit = eds({ users: 'hashed', salt: SALT });
  for (const accountType of ['customer', 'anonymous', 'unlicensed']) {
    await kit.track(contextOf(SITE, { accountType, accountId: accountType }), 'Report_Created');
  }
  await platform.deliver(kit.consumer);
  assert.deepEqual([...new Set(service.tracks.map(({ userId }) => userId))], [`${SITE}-public`]);
});

// --- Delivery -------------------------------------------------------------------------------------

const delivered = async (answer, retryCount = 0) => {
  service.answers = [answer];
  return eds().consumer({ body: { messages: [{ type: 'group' }] }, retryContext: { retryCount } });
};

test('what may succeed later is delivered again, after what the service asks for', async () => {
  for (const status of [408, 429, 500, 502, 503]) {
    assert.equal((await delivered(status))._retry, true);
  }
  const after = async (value) => (await delivered([503, { 'Retry-After': value }]))
    .retryOptions.retryAfter;
  assert.equal(await after('7'), 7);
  assert.equal(await after('0'), 1);
  assert.equal(await after('86400'), 900);
  const seconds = await after(new Date(Date.now() + 120_000).toUTCString());
  assert.ok(seconds > 115 && seconds <= 120);
});

test('it waits longer each time, and at most a quarter of an hour', async () => {
  const waits = [];
  for (const retryCount of [0, 1, 2, 3, 50]) {
    waits.push((await delivered(503, retryCount)).retryOptions.retryAfter);
  }
  [5, 10, 20, 40].forEach((expected, index) => {
    assert.ok(waits[index] >= expected * 0.75 && waits[index] <= expected * 1.25 + 1);
  });
  assert.equal(waits[4], 900);
});

test('a service that cannot be reached is tried again', async () => {
  const kit = eds();
  await service.stop();
  assert.equal((await kit.consumer({ body: { messages: [{}] } }))._retry, true);
  service = await new FakeService().start();
});

test('what the service refuses is not sent again, and no warning quotes it', async () => {
  for (const status of [400, 401, 404, 413]) {
    assert.equal(await delivered(status), undefined);
  }
  assert.equal(warnings.length, 4);
  assert.ok(!warnings.join().match(new RegExp(`${KEY}|group`)));
});

test('blocked requests are harmless, and one warning says so', async () => {
  const before = globalThis.fetch;
  globalThis.fetch = async () => {
    throw Object.assign(new Error('REQUEST_EGRESS_ALLOWLIST_ERR'), { code: 'E' });
  };
  try {
    const kit = eds();
    for (let index = 0; index < 3; index += 1) {
      assert.equal(await kit.consumer({ body: { messages: [{}] } }), undefined);
    }
    assert.equal(warnings.length, 1);
  } finally {
    globalThis.fetch = before;
  }
  for (const status of [403, 502]) {
    assert.equal(await delivered([status, { 'forge-proxy-error': 'BLOCKED' }]), undefined);
  }
});

test('an event of another kind in the queue is left out', async () => {
  assert.equal(await eds().consumer({ body: { other: true } }), undefined);
  assert.equal(service.requests.length, 0);
});

// --- The life of an installation ------------------------------------------------------------------

const LICENSE = {
  isActive: true, isEvaluation: true, billingPeriod: 'MONTHLY', trialEndDate: '2026-12-20',
  ccpEntitlementId: 'e-1', ccpEntitlementSlug: 'X-3SH-1A6', capabilitySet: 'capabilityStandard',
};

test('an installation is an account with its license, and an event of who installed it', async () => {
  const kit = eds();
  await kit.lifecycle(
    {
      eventType: 'avi:forge:installed:app', id: 'installation-1', installerAccountId: ACCOUNT,
      app: { id: 'app', version: '3.0.0' },
    },
    { installContext: installContextOf(SITE), license: LICENSE },
  );
  await platform.deliver(kit.consumer);
  const [{ traits }] = service.groups;
  closeTo(traits.installedAt, Date.now());
  delete traits.installedAt;
  assert.deepEqual(traits, {
    status: 'trial', isEvaluation: true, billingPeriod: 'MONTHLY', trialEndDate: '2026-12-20',
    entitlementId: 'e-1', entitlementNumber: 'X-3SH-1A6', edition: 'capabilityStandard',
    appVersion: '3.0.0', installationId: 'installation-1',
  });
  assert.deepEqual(service.tracks.map(({ event }) => event), ['App_Installed']);
});

test('an upgrade that names nobody is traits alone', async () => {
  const kit = eds();
  await kit.lifecycle(
    { eventType: 'avi:forge:upgraded:app', id: 'installation-1', app: { version: '4.0.0' } },
    { installContext: installContextOf(SITE), license: { active: false } },
  );
  await platform.deliver(kit.consumer);
  assert.equal(service.tracks.length, 0);
  assert.deepEqual(
    service.groups[0].traits,
    { status: 'inactive', appVersion: '4.0.0', installationId: 'installation-1' },
  );
  assert.equal(service.groups[0].userId, undefined);
});

test('an uninstallation is sent straight, without the queue', async () => {
  await eds().preUninstall({ context: { cloudId: SITE } }, {});
  assert.equal(platform.pushes, 0);
  assert.equal(service.groups[0].groupId, SITE);
  assert.equal(service.groups[0].traits.status, 'uninstalled');
});

test('a snapshot sends what the app counts, with its license', async () => {
  const kit = eds();
  const asked = [];
  const snapshot = kit.snapshot(async ({ cloudId }) => {
    asked.push(cloudId);
    return { reports: 12, nothing: undefined };
  });
  await snapshot({ context: { cloudId: SITE.toUpperCase() } }, { license: { isActive: true } });
  await platform.deliver(kit.consumer);
  assert.deepEqual(asked, [SITE]);
  assert.deepEqual(service.groups[0].traits, { status: 'paying', reports: 12 });
  assert.equal(service.groups[0].userId, undefined);
});

// --- Personal data --------------------------------------------------------------------------------

/** The app's storage, as far as the kit uses it. */
function storage() {
  const rows = new Map();
  return {
    rows,
    kvs: {
      set: async (key, value) => rows.set(key, value),
      delete: async (key) => rows.delete(key),
      query() {
        const page = { at: 0, size: 0, prefix: '' };
        const query = {
          where(_, { values: [prefix] }) { page.prefix = prefix; return query; },
          limit(size) { page.size = size; return query; },
          cursor(at) { page.at = Number(at); return query; },
          async getMany() {
            const all = [...rows].filter(([key]) => key.startsWith(page.prefix));
            const end = page.at + page.size;
            return {
              results: all.slice(page.at, end).map(([key, value]) => ({ key, value })),
              nextCursor: end < all.length ? String(end) : undefined,
            };
          },
        };
        return query;
      },
    },
  };
}

test('in the mode account, each person is reported, and closed accounts are forgotten', async () => {
  const { kvs, rows } = storage();
  const people = peopleIn(kvs, { beginsWith: (prefix) => ({ values: [prefix] }) });
  const kit = eds({
    users: 'account', people, forgetKey: 'edf_forget',
    reportPersonalData: privacy.reportPersonalData,
  });
  for (let index = 0; index < 250; index += 1) {
    await kit.track(contextOf(SITE, { accountId: `person-${index}` }), 'Report_Created');
  }
  rows.set('something else of the app', 1);
  platform.reportAnswers = {
    status: 200,
    accounts: [{ accountId: 'person-3', status: 'closed' }, { accountId: 'person-4', status: 'updated' }],
  };
  service.answers = [503, 503, 503];
  await kit.report();
  assert.equal(platform.reports.length, 250);
  assert.ok(rows.has('eds-person-person-3'));
  await kit.report();
  assert.ok(!rows.has('eds-person-person-3') && rows.has('eds-person-person-4'));
  const last = service.requests.at(-1);
  assert.equal(last.path, '/v2/forget');
  assert.equal(last.headers.authorization, 'Bearer edf_forget');
  assert.deepEqual(JSON.parse(last.text), { userId: 'person-3', suppress: true });
  assert.equal(rows.size, 250);
});

// --- The browser's part ---------------------------------------------------------------------------

test('clicks are collected for a second, or until there are twenty', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const calls = [];
  const track = createTracker(async (name, payload) => { calls.push([name, payload.events]); });
  track('Report_Created');
  track('Dashboard_Viewed');
  assert.equal(calls.length, 0);
  t.mock.timers.tick(1_000);
  assert.deepEqual(calls[0][1].map(({ event }) => event), ['Report_Created', 'Dashboard_Viewed']);
  assert.equal(calls[0][0], 'eds');
  await Promise.resolve();
  for (let index = 0; index < 20; index += 1) {
    track('Report_Created');
  }
  assert.equal(calls[1][1].length, 20);
});

test('what the resolver did not take goes with the next call, under the same ids', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const calls = [];
  const track = createTracker(async (_, { events }) => {
    calls.push(events);
    if (calls.length < 3) {
      throw new Error('Too many invocations');
    }
  });
  track('Report_Created');
  for (let index = 0; index < 5; index += 1) {
    t.mock.timers.tick(1_000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(calls.length, 3);
  assert.deepEqual(calls[0], calls[2]);
});
