"""How likely accounts are to buy, to renew, or to go quiet, as past outcomes say."""
