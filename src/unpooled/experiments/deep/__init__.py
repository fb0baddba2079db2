"""DeepFeCA (Xu et al. 2024, sections 5 and 6.2): features and clusters learnt together."""
