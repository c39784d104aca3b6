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

console.log(JSON.stringify({
  total: list.data.pagination.total,
  listed: accounts.map((row) => [row.tracking_id, row.traits?.plan, row.metrics?.raw_score]),
  days: account?.history?.length,
  users: users.data?.data.map((user) => user.tracking_id),
  error: error?.code,
}))
