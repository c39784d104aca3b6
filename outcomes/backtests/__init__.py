"""How well scores predicted what became of accounts."""
