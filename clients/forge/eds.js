/**
 * Sends usage of a Forge app to an Engagement Data Service. Copy this file into your app.
 *
 * Needs `@forge/events`, and in the mode `account` also `@forge/api` and `@forge/kvs`. The guide,
 * docs/forge.md, says what each way of sending costs, and what the manifest must contain.
 *
 *     export const eds = createEds({
 *         url: process.env.EDS_URL, key: process.env.EDS_KEY, events: ['Report_Created'],
 *     });
 *     await eds.track(context, 'Report_Created');
 *
 * Nothing that it exports throws, because analytics must not break an app. Without a URL or a key,
 * it sends nothing.
 */

import { createHmac, randomUUID } from 'node:crypto';
import { InvocationError, InvocationErrorCode, Queue } from '@forge/events';

const MODES = ['site', 'hashed', 'account'];
// An event of the queue holds at most 100 KB if its consumer may run for longer than 55 s.
const MOST_BYTES = 90 * 1024;
const MOST_EVENTS_OF_A_CALL = 200;
const DIRECT_TIMEOUT_MS = 2_000;
const DELIVERY_TIMEOUT_MS = 20_000;
const UNINSTALL_TIMEOUT_MS = 10_000;
const DAY_MS = 24 * 60 * 60 * 1_000;
const RETRYABLE = new Set([408, 425, 429]);
const MOST_RETRY_SECONDS = 900;
const FIRST_RETRY_SECONDS = 5;

// A UUID: `ari:cloud:jira::site/0b1c…`.
const SITE = /^ari:cloud:[a-z0-9-]+::site\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i;
const CLOUD_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const BLOCKED = 'REQUEST_EGRESS_ALLOWLIST_ERR';

/**
 * Returns the Cloud ID of the site that called, or undefined.
 *
 * `context.cloudId` is not read: in a resolver it comes from the browser, so a user could write
 * into another customer's account. The platform itself sets `installContext`.
 */
export function siteOf(context) {
  const [, cloudId] = SITE.exec(context?.installContext ?? '') ?? [];
  return cloudId?.toLowerCase();
}

/**
 * Returns the functions of a Forge app that send to the service.
 *
 * @param {object} options
 * @param {string} [options.url] where the service is, such as `https://eds.example.com`
 * @param {string} [options.key] an ingestion key of its own, from an encrypted variable
 * @param {'site'|'hashed'|'account'} [options.users] whom events belong to: one user for each site,
 *     a pseudonym of each person, or the Atlassian account id
 * @param {string} [options.salt] of the pseudonyms: at least 16 characters, from an encrypted
 *     variable
 * @param {string[]} [options.events] the names that a browser may send
 * @param {string} [options.queue] the key of the queue in the manifest
 * @param {string} [options.forgetKey] a key with the right to forget, for the mode `account`
 * @param {object} [options.people] `remember(accountId)`, `all()`, and `forget(accountId)`: the
 *     account ids that were sent, for the mode `account` (see `peopleIn` in eds-people.js)
 * @param {Function} [options.reportPersonalData] of `@forge/api`, for the mode `account`
 */
export function createEds({
  url, key, users = 'site', salt, events = [], queue = 'eds', forgetKey, people,
  reportPersonalData, warn = console.warn,
}) {
  const warned = new Set();
  const warnOnce = (text) => {
    if (!warned.has(text)) {
      warned.add(text);
      warn(`Engagement data: ${text}`);
    }
  };
  const problem = problemOf({ url, key, users, salt, people });
  const known = new Set(events);
  const origin = (url ?? '').replace(/\/+$/, '');

  /** Calls the function, and turns whatever it throws into a warning. */
  const safely = (work) => async (...parameters) => {
    try {
      if (problem) {
        warnOnce(problem);
        return undefined;
      }
      return await work(...parameters);
    } catch (error) {
      // Its message might quote what was sent.
      warnOnce(`a call failed (${error?.name ?? 'unknown error'}), and its events are lost.`);
      return undefined;
    }
  };

  const userOf = (site, context) => {
    const { accountId, accountType } = context;
    const isLicensed = accountId && [undefined, 'licensed'].includes(accountType);
    if (!isLicensed) {
      return accountId || accountType ? `${site}-public` : site;
    }
    if (users === 'site') {
      return site;
    }
    return users === 'account'
      ? accountId
      : createHmac('sha256', salt).update(accountId).digest('hex').slice(0, 32);
  };

  const post = (messages, timeout) => fetch(`${origin}/segment/v1/batch`, {
    method: 'POST',
    headers: { 'Authorization': `Basic ${key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ batch: messages, sentAt: new Date().toISOString() }),
    signal: AbortSignal.timeout(timeout),
  });

  /** Puts the messages into the queue; if the queue takes none, sends them once itself. */
  const enqueue = async (messages) => {
    for (const body of bodiesOf(messages)) {
      try {
        await new Queue({ key: queue }).push({ body });
      } catch (error) {
        const response = await post(body.messages, DIRECT_TIMEOUT_MS);
        if (!response.ok) {
          warnOnce(`the queue failed (${error?.name}), and so did sending directly `
            + `(${response.status}); events are lost.`);
        }
      }
    }
  };

  const messagesOf = (site, context, sent, traits = {}) => {
    const userId = userOf(site, context);
    // A group with its user: a track alone does not make a user known.
    const group = groupOf(site, { ...licenseTraits(context.license), ...traits }, userId);
    const tracks = sent.map(({ event, at, id }) => ({
      type: 'track',
      userId,
      event,
      context: { groupId: site },
      timestamp: timeOf(at),
      // An id from a browser repeats at most what its own site has sent.
      messageId: id ? `${site}:${id}` : randomUUID(),
    }));
    return [group, ...tracks];
  };

  const rememberUser = async (context) => {
    if (users === 'account' && context.accountId) {
      await people.remember(context.accountId);
    }
  };

  /**
   * Sends events of the site and the user of the context.
   *
   * @param context of a resolver, a trigger, or a consumer
   * @param {string|Array<string|{event: string, at?: number|string, id?: string}>} sent names of
   *     events, or events with the time when they happened and an id that makes repeats harmless
   */
  const track = safely(async (context, sent) => {
    const site = siteOf(context);
    if (!site) {
      warnOnce('the context has no site in installContext; its events are left out.');
      return;
    }
    const list = [sent].flat().map((each) => (typeof each === 'string' ? { event: each } : each));
    await rememberUser(context);
    await enqueue(messagesOf(site, context, list));
  });

  /** For `resolver.define('eds', eds.resolver)`: takes only the names of `events`. */
  const resolver = safely(async ({ payload, context }) => {
    const list = Array.isArray(payload?.events) ? payload.events : [];
    const accepted = list.slice(0, MOST_EVENTS_OF_A_CALL).filter(
      (each) => known.has(each?.event) && (!each.id || CLOUD_ID.test(each.id)),
    );
    if (accepted.length < list.length) {
      warnOnce('a browser sent an event that is not in `events`; it is left out.');
    }
    if (accepted.length) {
      await track(context, accepted);
    }
    return { accepted: accepted.length };
  });

  /** The consumer of the queue. What it returns makes the platform deliver again, later. */
  const consumer = safely(async (event) => {
    const messages = event?.body?.messages;
    if (!Array.isArray(messages)) {
      warnOnce('the queue has an event that is not of this kit; it is left out.');
      return undefined;
    }
    let response;
    try {
      response = await post(messages, DELIVERY_TIMEOUT_MS);
    } catch (error) {
      if (isBlocked(error)) {
        warnOnce(`${BLOCKED}: the manifest does not allow requests to ${origin}.`);
        return undefined;
      }
      return again(event);
    }
    if (response.ok) {
      return undefined;
    }
    if (response.headers.get('forge-proxy-error')) {
      warnOnce(`the platform refused requests to ${origin}; events are lost.`);
      return undefined;
    }
    if (RETRYABLE.has(response.status) || response.status >= 500) {
      return again(event, response);
    }
    warnOnce(`the service answered ${response.status}; ${messages.length} messages are lost.`);
    return undefined;
  });

  /** For `avi:forge:installed:app` and `avi:forge:upgraded:app`. */
  const lifecycle = safely(async (event, context) => {
    const site = siteOf(context) ?? siteOf({ installContext: event?.context });
    if (!site) {
      warnOnce('the app is not installed on a site; its installation is left out.');
      return;
    }
    const isInstalled = String(event?.eventType ?? '').includes(':installed:');
    const person = event?.installerAccountId ?? event?.upgraderAccountId;
    const traits = {
      appVersion: event?.app?.version,
      installationId: event?.id,
      ...(isInstalled && { installedAt: new Date().toISOString() }),
    };
    const who = { ...context, accountId: person, accountType: person && 'licensed' };
    if (!person) {
      await enqueue([groupOf(site, { ...licenseTraits(context?.license), ...traits })]);
      return;
    }
    await rememberUser(who);
    const name = isInstalled ? 'App_Installed' : 'App_Upgraded';
    await enqueue(messagesOf(site, who, [{ event: name }], traits));
  });

  /** For the module `preUninstall`: the queue of the app ends with it. */
  const preUninstall = safely(async (payload, context) => {
    const site = cloudIdOf(payload, context);
    if (site) {
      const traits = { status: 'uninstalled', uninstalledAt: new Date().toISOString() };
      const response = await post([groupOf(site, traits)], UNINSTALL_TIMEOUT_MS);
      if (!response.ok) {
        warnOnce(`the service answered ${response.status} to an uninstallation.`);
      }
    }
  });

  /**
   * Returns a function for a scheduled trigger, which sends traits of the site once a day.
   *
   * @param {Function} [traitsOf] returns an object of numbers and texts, such as how many reports
   *     the site has
   */
  const snapshot = (traitsOf = () => ({})) => safely(async (payload, context) => {
    const site = cloudIdOf(payload, context);
    if (site) {
      const traits = await traitsOf({ ...context, cloudId: site });
      await enqueue([groupOf(site, { ...licenseTraits(context?.license), ...traits })]);
    }
  });

  /**
   * For a weekly scheduled trigger in the mode `account`: reports the stored account ids to
   * Atlassian, and forgets those that are closed, in the service and here.
   */
  const report = safely(async () => {
    if (users !== 'account') {
      return;
    }
    const answers = await reportPersonalData(await people.all());
    for (const { accountId, status } of answers) {
      if (status === 'closed' && (await forget(accountId))) {
        await people.forget(accountId);
      }
    }
  });

  const forget = async (userId) => {
    const response = await fetch(`${origin}/v2/forget`, {
      method: 'POST',
      headers: { 'Authorization': `Bearer ${forgetKey}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ userId, suppress: true }),
      signal: AbortSignal.timeout(DELIVERY_TIMEOUT_MS),
    });
    if (!response.ok) {
      warnOnce(`the service answered ${response.status} to a request to forget somebody; `
        + 'the next report tries again.');
    }
    return response.ok;
  };

  return { track, resolver, consumer, lifecycle, preUninstall, snapshot, report };
}

function problemOf({ url, key, users, salt, people }) {
  if (!url || !key) {
    return 'EDS_URL or EDS_KEY is not set, so nothing is sent.';
  }
  if (!MODES.includes(users)) {
    return `users must be one of ${MODES.join(', ')}, so nothing is sent.`;
  }
  if (users === 'hashed' && !(salt?.length >= 16)) {
    return 'the mode hashed needs a salt of at least 16 characters, so nothing is sent.';
  }
  if (users === 'account' && !people) {
    return 'the mode account needs people, to report them each week, so nothing is sent.';
  }
  return undefined;
}

/** The platform sets these contexts of functions without a browser. */
function cloudIdOf(payload, context) {
  const cloudId = payload?.context?.cloudId;
  return siteOf(context) ?? siteOf(payload?.context)
    ?? (CLOUD_ID.test(cloudId ?? '') ? cloudId.toLowerCase() : undefined);
}

function groupOf(site, traits, userId) {
  const group = {
    type: 'group',
    groupId: site,
    traits: withoutUndefined(traits),
    timestamp: new Date().toISOString(),
    messageId: randomUUID(),
  };
  return userId ? { ...group, userId } : group;
}

/** The license as traits. Free apps, and those in development, have none. */
function licenseTraits(license) {
  if (!license) {
    return {};
  }
  const isActive = license.isActive ?? license.active;
  const { isEvaluation } = license;
  return {
    status: isActive ? (isEvaluation ? 'trial' : 'paying') : 'inactive',
    isEvaluation,
    billingPeriod: license.billingPeriod,
    trialEndDate: license.trialEndDate,
    subscriptionEndDate: license.subscriptionEndDate,
    entitlementId: license.ccpEntitlementId,
    entitlementNumber: license.ccpEntitlementSlug,
    edition: license.capabilitySet,
  };
}

function withoutUndefined(traits) {
  return Object.fromEntries(
    Object.entries(traits).filter(([, value]) => value !== undefined && value !== null),
  );
}

/** The time when it happened. A browser's clock may be wrong: a day at most. */
function timeOf(at) {
  const now = Date.now();
  const time = typeof at === 'string' ? Date.parse(at) : at;
  const isUsable = Number.isFinite(time) && time <= now && time > now - DAY_MS;
  return new Date(isUsable ? time : now).toISOString();
}

/** Divides messages into bodies that fit into the queue. Each begins with the group. */
function* bodiesOf([group, ...tracks]) {
  const sizeOf = (message) => Buffer.byteLength(JSON.stringify(message)) + 1;
  let messages = [group];
  let size = sizeOf(group);
  for (const track of tracks) {
    if (size + sizeOf(track) > MOST_BYTES) {
      yield { messages };
      messages = [group];
      size = sizeOf(group);
    }
    messages.push(track);
    size += sizeOf(track);
  }
  yield { messages };
}

function isBlocked(error) {
  return [error?.name, error?.message, error?.code, error?.cause?.code].some(
    (text) => String(text ?? '').includes(BLOCKED),
  );
}

/** Has the platform deliver the event again: after what the service asks for, or ever later. */
function again(event, response) {
  const asked = secondsOf(response?.headers.get('retry-after'));
  const exponent = Math.min(event.retryContext?.retryCount ?? 0, 10);
  const backoff = FIRST_RETRY_SECONDS * 2 ** exponent * (0.75 + Math.random() / 2);
  return new InvocationError({
    retryAfter: Math.min(Math.max(Math.ceil(asked ?? backoff), 1), MOST_RETRY_SECONDS),
    retryReason: InvocationErrorCode.FUNCTION_UPSTREAM_RATE_LIMITED,
  });
}

function secondsOf(retryAfter) {
  if (!retryAfter) {
    return undefined;
  }
  const seconds = Number(retryAfter);
  const until = Number.isFinite(seconds) ? seconds : (Date.parse(retryAfter) - Date.now()) / 1_000;
  return Number.isFinite(until) ? until : undefined;
}
