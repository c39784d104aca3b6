// Reads with a client whose types openapi-typescript generated. Arguments: the service's address, a read token, and a
// workspace. Prints what it read as JSON. The compiler checks each name and type below.

import createClient from 'openapi-fetch'
import type { components, paths } from './api'

const [address, token, workspace] = process.argv.slice(2)
const headers = { Authorization: `Bearer ${token}` }
const client = createClient<paths>({ baseUrl: address, headers, querySerializer: { array: { style: 'form', explode: true } } })
const workspace_id = Number(workspace)

const list = await client.GET('/v2/accounts', {
  params: {
    query: {
      workspace_id,
      tracking_id: 'generated',
      expand: ['traits', 'metrics'],
      traits: ['plan'],
      sort: '-score',
      total: true,
    },
  },
})
if (!list.data) throw new Error(JSON.stringify(list.error))
const accounts: components['schemas']['Account'][] = list.data.data
const account_id = accounts[0].id
const detail = await client.GET('/v2/accounts/{account_id}', {
  params: { path: { account_id }, query: { workspace_id, expand: ['traits', 'history'] } },
})
const account: components['schemas']['FullAccount'] | undefined = detail.data?.data
const users = await client.GET('/v2/accounts/{account_id}/users', {
  params: { path: { account_id }, query: { workspace_id } },
})
const refused = await client.GET('/v2/accounts', { params: { query: { workspace_id, limit: 0 } } })
const error: components['schemas']['ApiError'] | undefined = refused.error?.error

const parameter = (link: string | undefined, name: string) => new URL(link ?? '').searchParams.get(name) ?? ''
type AccountQuery = paths['/v2/accounts']['get']['parameters']['query']

async function readAccounts(query: Omit<AccountQuery, 'workspace_id'>) {
  const { data, error } = await client.GET('/v2/accounts', { params: { query: { workspace_id, ...query } } })
  if (!data) throw new Error(JSON.stringify(error))
  return data
}

const page = await readAccounts({ limit: 1 })
const second = await readAccounts({ limit: 1, cursor: parameter(page._links.next, 'cursor') })

const segments = await client.GET('/v2/segments', { params: { query: { workspace_id, scope: 'user', limit: 1 } } })
const segment_id = segments.data?.data[0].id ?? 0

async function readMembers(cursor?: string) {
  const { data, error } = await client.GET('/v2/segments/{segment_id}/members', {
    params: { path: { segment_id }, query: { workspace_id, limit: 1, cursor } },
  })
  if (!data) throw new Error(JSON.stringify(error))
  return data
}

const members = await readMembers()
const moreMembers = await readMembers(parameter(members._links.next, 'cursor'))

// All accounts that changed since the token, and the token of the next walk.
async function follow(changed_since: string) {
  const changed = new Map<number, components['schemas']['Account']>()
  let cursor: string | undefined
  while (true) {
    const walked = await readAccounts({ changed_since, limit: 2, cursor })
    for (const row of walked.data) changed.set(row.id, row)
    if (!walked.pagination.has_more) return { changed, token: parameter(walked._links.changes, 'changed_since') }
    cursor = parameter(walked._links.next, 'cursor')
  }
}

const mirror = await follow('start')
const { changed } = await follow(mirror.token)
const ids = (...pages: { data: { id: number }[] }[]) => new Set(pages.flatMap((each) => each.data.map((row) => row.id))).size

console.log(JSON.stringify({
  total: list.data.pagination.total,
  listed: accounts.map((row) => [row.tracking_id, row.traits?.plan, row.metrics?.raw_score]),
  days: account?.history?.length,
  users: users.data?.data.map((user) => user.tracking_id).sort(),
  pages: [ids(page), ids(page, second)],
  members: [ids(members), ids(members, moreMembers)],
  mirrored: [...mirror.changed.values()].map((row) => row.tracking_id).filter((id) => id.startsWith('generated')).sort(),
  has_changes_only: changed.size < mirror.changed.size,
  error: error?.code,
}))
