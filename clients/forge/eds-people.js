/**
 * Remembers which account ids the mode `account` has sent, in the app's own storage. Atlassian asks
 * apps that store personal data to report each account id every seven days.
 *
 *     import { kvs, WhereConditions } from '@forge/kvs';
 *     const people = peopleIn(kvs, WhereConditions);
 */

const PREFIX = 'eds-person-';
const PAGE = 100;

/** Returns `remember()`, `all()`, and `forget()` for `createEds({ people })`. */
export function peopleIn(kvs, WhereConditions) {
  const seen = new Set();
  return {
    async remember(accountId) {
      if (!seen.has(accountId)) {
        await kvs.set(PREFIX + accountId, { updatedAt: new Date().toISOString() });
        seen.add(accountId);
      }
    },
    async all() {
      const people = [];
      let cursor;
      do {
        const query = kvs.query().where('key', WhereConditions.beginsWith(PREFIX)).limit(PAGE);
        const page = await (cursor ? query.cursor(cursor) : query).getMany();
        for (const { key, value } of page.results) {
          people.push({ accountId: key.slice(PREFIX.length), updatedAt: value.updatedAt });
        }
        cursor = page.nextCursor;
      } while (cursor);
      return people;
    },
    async forget(accountId) {
      await kvs.delete(PREFIX + accountId);
      seen.delete(accountId);
    },
  };
}
