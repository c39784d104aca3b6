/**
 * The platform, for tests under plain Node.js: the real packages of Forge, and their two globals.
 *
 * It keeps what was pushed into queues, and delivers it as the platform does: at least once, again
 * when the consumer returns an InvocationError, and each time later.
 */

import { setTimeout as sleep } from 'node:timers/promises';

export const SITE = '0b1c2d3e-4f50-4617-8283-94a5b6c7d8e9';
export const OTHER_SITE = '11111111-2222-4333-8444-555555555555';
export const installContextOf = (site) => `ari:cloud:jira::site/${site}`;

/** A context as a resolver gets it. */
export const contextOf = (site = SITE, more = {}) => ({
  installContext: installContextOf(site),
  accountId: '5be24ad8b1653240376955d2',
  accountType: 'licensed',
  ...more,
});

export class Platform {
  /** What functions returned, and what was pushed but not delivered yet. */
  jobs = [];
  pushes = 0;
  /** Statuses that the next pushes get, instead of 201. */
  refusals = [];
  reports = [];
  reportAnswers = { status: 204 };

  install() {
    globalThis.__forge_runtime__ = {
      contextAri: installContextOf(SITE),
      appContext: { appId: 'app', appVersion: '1.0.0', environmentId: 'environment' },
      lambdaContext: { getRemainingTimeInMillis: () => 25_000 },
      metrics: {
        counter: () => ({ incr() {} }),
        timing: () => ({ measure: () => ({ stop() {} }) }),
      },
    };
    globalThis.__forge_fetch__ = async (options, path, init) => this.#answer(path, init);
    return this;
  }

  #answer(path, init) {
    if (path.startsWith('/webhook/queue/publish/')) {
      this.pushes += 1;
      const status = this.refusals.shift() ?? 201;
      if (status === 201) {
        const { jobId, queueName, payload } = JSON.parse(init.body);
        this.jobs.push(...payload.map(({ body }) => ({ jobId, queueName, body })));
      }
      return new Response(status === 201 ? null : '{}', { status });
    }
    if (path.startsWith('/app/report-accounts')) {
      this.reports.push(...JSON.parse(init.body).accounts);
      const { status, accounts } = this.reportAnswers;
      return new Response(accounts ? JSON.stringify({ accounts }) : null, { status });
    }
    throw new Error(`The tests know no ${path}.`);
  }

  /**
   * Delivers what waits until nothing is left. Returns the seconds that consumers asked for.
   *
   * @param {number} twice the share of deliveries that are repeated although they succeeded
   * @param {number} pause the longest time, in milliseconds, that a delivery waits to be repeated
   */
  async deliver(consumer, { twice = 0, pause = 0, random = Math.random, most = 100_000 } = {}) {
    const waits = [];
    for (let attempt = 0; this.jobs.length && attempt < most; attempt += 1) {
      const job = this.jobs.shift();
      const result = await consumer(job, {});
      if (result?._retry) {
        waits.push(result.retryOptions.retryAfter);
        if (pause) {
          await sleep(Math.min(pause, result.retryOptions.retryAfter * 1_000));
        }
        const retryCount = (job.retryContext?.retryCount ?? 0) + 1;
        this.jobs.push({ ...job, retryContext: { ...result.retryOptions, retryCount } });
      } else if (random() < twice) {
        this.jobs.push(job);
      }
    }
    return waits;
  }
}

/** A server on this machine in place of the service: keeps messages, and answers as told. */
export class FakeService {
  batches = [];
  requests = [];
  /** The next answers: a status, or [status, headers]. Then 200. */
  answers = [];

  async start() {
    const { createServer } = await import('node:http');
    this.server = createServer((request, response) => {
      let text = '';
      request.on('data', (part) => { text += part; });
      request.on('end', () => {
        const [status, headers] = [this.answers.shift() ?? 200].flat();
        this.requests.push({ path: request.url, headers: request.headers, text });
        if (status === 200 && request.url === '/segment/v1/batch') {
          this.batches.push(JSON.parse(text).batch);
        }
        response.writeHead(status, headers).end('{}');
      });
    });
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
    return this;
  }

  stop() {
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(resolve));
  }

  get messages() {
    return this.batches.flat();
  }

  get tracks() {
    return this.messages.filter(({ type }) => type === 'track');
  }

  get groups() {
    return this.messages.filter(({ type }) => type === 'group');
  }
}
