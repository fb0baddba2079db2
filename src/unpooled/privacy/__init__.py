"""What may leave a party: its ledger, its policy, and the count of what has left."""

from unpooled.privacy.ledger import Ledger
from unpooled.privacy.policy import DEPLOYMENT, STUDY, Deployment, Policy, Study
from unpooled.privacy.site_rows import SiteRows
from unpooled.privacy.traffic import Traffic

__all__ = ["DEPLOYMENT", "STUDY", "Deployment", "Ledger", "Policy", "SiteRows", "Study", "Traffic"]
